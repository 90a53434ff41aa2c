// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Parameters;

/** {@code petra load}: loads a snapshot, or data that a StoreWriter wrote, into a cluster. */
@Command(
        name = "load",
        description = {
            "Loads what a StoreWriter wrote, or a snapshot of a table in the engine, into the nodes"
                    + " that own it.",
            "",
            "Takes the options of Cassandra's sstableloader and a directory:",
            "petra load --nodes 127.0.0.1 <table dir>/snapshots/<tag>",
            "",
            "Passwords that are not given are taken from the variables PETRA_CQL_PASSWORD,"
                    + " PETRA_TRUSTSTORE_PASSWORD and PETRA_KEYSTORE_PASSWORD: other users of the"
                    + " machine can see options."
        })
final class LoadCommand implements Callable<Integer> {
    private static final String MAIN = "dev.petra.cassandra.bulkload.StoreLoader";

    @Parameters(
            paramLabel = "ARG",
            description =
                    "Options of sstableloader (--nodes, --port, --username, --password,"
                            + " --target-keyspace, --target-table, --conf-path and so on), and the"
                            + " directory.")
    private List<String> arguments = new ArrayList<>();

    @Override
    public Integer call() {
        return Processes.runInherited(
                "load", command(Distribution.fromSystemProperty(), arguments));
    }

    private static List<String> command(Distribution distribution, List<String> arguments) {
        distribution.check();
        List<String> command = new ArrayList<>();
        command.add(NodeProcess.java());
        // Most of the work is native and often short: a small heap and a quick start suffice.
        command.addAll(List.of("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"));
        command.addAll(JvmOptions.access());
        command.add("-Dlogback.configurationFile=dev/petra/cassandra/bulkload/load-logback.xml");
        command.add("-Dio.netty.tryReflectionSetAccessible=true");
        command.add("-cp");
        command.add(distribution.classPath(List.of(distribution.plugin())));
        command.add(MAIN);
        command.addAll(arguments);
        return command;
    }
}
