// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.cql.CqlClient;
import java.time.Duration;
import picocli.CommandLine.Option;

/** The options of commands that talk CQL: to which node, and how long they wait. */
final class CqlOptions {
    @Option(
            names = "--address",
            paramLabel = "ADDRESS",
            defaultValue = "127.0.0.1",
            description = "The node's address; default: ${DEFAULT-VALUE}.")
    private String address = "127.0.0.1";

    @Option(
            names = "--port",
            paramLabel = "PORT",
            converter = PortConverter.class,
            defaultValue = "9042",
            description = "The port of CQL; default: ${DEFAULT-VALUE}.")
    private int port = 9042;

    @Option(
            names = "--timeout",
            paramLabel = "TIME",
            defaultValue = "30s",
            converter = DurationConverter.class,
            description = "How long a request may take; default: ${DEFAULT-VALUE}.")
    private Duration timeout = Duration.ofSeconds(30);

    String address() {
        return address;
    }

    int port() {
        return port;
    }

    /** Connects to that node. */
    CqlClient connect() {
        return connect(address, port);
    }

    /** Connects to another one. */
    CqlClient connect(String otherAddress, int otherPort) {
        return CqlClient.connect(otherAddress, otherPort, timeout);
    }
}
