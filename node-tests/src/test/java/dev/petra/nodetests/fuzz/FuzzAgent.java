// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.fuzz;

import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/**
 * Brings the fuzzer into a node. Waits for the file {@code -Dfuzz.go}, a properties file with what
 * to do (seed, seconds, life, purges, survivors), and leaves {@code <file>.done}: difference,
 * survivors, clock, figures.
 */
public final class FuzzAgent {
    private FuzzAgent() {}

    /** Called by the JVM; nothing of Cassandra may be touched before the node is up. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        Thread thread = new Thread(FuzzAgent::run, "fuzz");
        thread.setDaemon(true);
        thread.start();
    }

    private static void run() {
        Path go = Path.of(System.getProperty("fuzz.go"));
        try {
            while (!Files.exists(go)) TimeUnit.MILLISECONDS.sleep(50);
            Properties task = new Properties();
            try (var in = Files.newBufferedReader(go)) {
                task.load(in);
            }
            Properties done = new Properties();
            try {
                fuzz(task, done);
            } catch (RuntimeException | Error e) {
                StringWriter text = new StringWriter();
                e.printStackTrace(new PrintWriter(text));
                done.setProperty("difference", text.toString());
            }
            done.setProperty("clock", Long.toString(FuzzClock.millis()));
            Path written = go.resolveSibling(go.getFileName() + ".writing");
            try (var out = Files.newBufferedWriter(written)) {
                done.store(out, null);
            }
            Files.move(
                    written,
                    go.resolveSibling(go.getFileName() + ".done"),
                    StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void fuzz(Properties task, Properties done) {
        Fuzzer.prepare();
        Fuzzer fuzzer =
                new Fuzzer(
                        Integer.parseInt(task.getProperty("life")),
                        Boolean.parseBoolean(task.getProperty("purges")));
        String difference =
                fuzzer.run(
                        task.getProperty("survivors"),
                        Long.parseLong(task.getProperty("seed")),
                        TimeUnit.SECONDS.toNanos(Long.parseLong(task.getProperty("seconds"))));
        if (difference != null) done.setProperty("difference", difference);
        done.setProperty("survivors", fuzzer.survivors());
        fuzzer.figures(done);
    }
}
