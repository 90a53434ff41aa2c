// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.cql.CqlAccess;
import dev.petra.launcher.cql.CqlClient;
import java.io.Console;
import java.nio.file.Path;
import java.time.Duration;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** The options of commands that talk CQL: to which node, and how long they wait. */
final class CqlOptions {
    private static final String PASSWORD = "PETRA_CQL_PASSWORD";
    private static final String TRUSTSTORE = "PETRA_TRUSTSTORE_PASSWORD";
    private static final String KEYSTORE = "PETRA_KEYSTORE_PASSWORD";

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

    @Option(
            names = "--username",
            paramLabel = "ROLE",
            description = "Who logs in, where the node asks for that; default: nobody.")
    private @Nullable String role;

    @Option(
            names = "--password",
            description = "Asks for the password; default: the variable " + PASSWORD + ".")
    private boolean asksPassword;

    @Option(
            names = "--ssl",
            description = "Encrypts the connection, and trusts the certificates of the JVM.")
    private boolean ssl;

    @Option(
            names = "--truststore",
            paramLabel = "FILE",
            description =
                    "Encrypts the connection, and trusts the certificates in this file; its"
                            + " password is the variable "
                            + TRUSTSTORE
                            + ".")
    private @Nullable Path truststore;

    @Option(
            names = "--keystore",
            paramLabel = "FILE",
            description =
                    "Encrypts the connection, and shows the certificate in this file; its password"
                            + " is the variable "
                            + KEYSTORE
                            + ".")
    private @Nullable Path keystore;

    @Option(
            names = "--any-address",
            description = "Takes a trusted certificate that is not of the node's address.")
    private boolean anyAddress;

    private @Nullable String typed;

    @Spec(Spec.Target.MIXEE)
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

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
        return CqlClient.connect(otherAddress, otherPort, timeout, access());
    }

    private CqlAccess access() {
        if (role == null && asksPassword) throw wrong("--password needs --username");
        CqlAccess.Login login = role == null ? null : new CqlAccess.Login(role, password());
        CqlAccess.Store trusted =
                truststore == null ? null : new CqlAccess.Store(truststore, variable(TRUSTSTORE));
        CqlAccess.Store own =
                keystore == null ? null : new CqlAccess.Store(keystore, variable(KEYSTORE));
        boolean encrypts = ssl || trusted != null || own != null;
        if (anyAddress && !encrypts) throw wrong("--any-address needs --ssl or --truststore");
        return new CqlAccess(login, encrypts ? new CqlAccess.Tls(trusted, own, !anyAddress) : null);
    }

    /** Asked for once, for all nodes. */
    @SuppressWarnings("SystemConsoleNull") // Petra runs on Cassandra's Java, which is 17 at most.
    private String password() {
        if (!asksPassword) return variable(PASSWORD);
        if (typed == null) {
            Console console = System.console();
            if (console == null)
                throw wrong("there is no terminal to ask for the password: set " + PASSWORD);
            char[] answer = console.readPassword("Password: ");
            typed = answer == null ? "" : new String(answer);
        }
        return typed;
    }

    private String variable(String name) {
        String value = System.getenv(name);
        if (value == null)
            throw wrong(
                    name.equals(PASSWORD)
                            ? "--username needs a password: add --password to be asked for it, or"
                                    + " set "
                                    + name
                            : "the variable " + name + " is not set");
        return value;
    }

    private ParameterException wrong(String message) {
        return new ParameterException(spec.commandLine(), message);
    }
}
