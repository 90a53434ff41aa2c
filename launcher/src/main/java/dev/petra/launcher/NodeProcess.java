// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A Cassandra node in a JVM of its own. It can be started again after it has ended. One thread
 * starts it, waits for it, stops and kills it; other threads may ask for its state meanwhile.
 */
public final class NodeProcess {
    static final ProcessBuilder.Redirect NO_INPUT =
            ProcessBuilder.Redirect.from(new File(File.separatorChar == '/' ? "/dev/null" : "NUL"));

    private static final Duration STOP_TIMEOUT = Duration.ofSeconds(90);
    private static final Duration KILL_TIMEOUT = Duration.ofSeconds(30);

    /** For a line that a changed {@code logback.xml} may leave out. */
    private static final Duration LOGGED = Duration.ofSeconds(5);

    private final NodeConfig config;
    private final NodeDirectory directory;
    private final PidFile pidFile;
    private final LogFile systemLog;
    private final LogFile output;
    private final Duration logged;
    private volatile @Nullable Process process;
    private volatile @Nullable NodeSettings settings;
    private @Nullable Thread endHook;

    /** Makes a node that does not run yet; writes no files. */
    public NodeProcess(NodeConfig config) {
        this(config, LOGGED);
    }

    /**
     * @param logged how long to wait, once the port is open, for the log to say that the node is up
     */
    NodeProcess(NodeConfig config, Duration logged) {
        this.config = config;
        this.logged = logged;
        this.directory = config.directory();
        this.pidFile = new PidFile(directory);
        this.systemLog = new LogFile(directory.systemLog());
        this.output = new LogFile(directory.output());
    }

    /**
     * Prepares the directory and starts the process; does not wait until the node is up.
     *
     * @throws NodeException if it cannot be started; no process runs then
     */
    public void start() {
        config.distribution().check();
        directory.createRoot();
        StartLock.hold(directory, this::startAlone);
    }

    /**
     * Waits until the node takes CQL.
     *
     * @throws NodeException with the end of the log, as soon as the process ends, or after the
     *     timeout
     */
    public void awaitCql(Duration timeout) {
        if (!opensCql(timeout))
            throw new NodeException(
                    "CQL was not open after %d s; the node (pid %d) is still starting, log %s\n%s"
                            .formatted(timeout.toSeconds(), pid(), logFile(), tail()));
    }

    /**
     * Waits until the node takes CQL, and returns whether it does; false after the timeout.
     *
     * @throws NodeException with the end of the log, as soon as the process ends
     */
    boolean opensCql(Duration timeout) {
        long start = System.nanoTime();
        NodeSettings reach = settings();
        while (!Ports.isOpen(reach.rpcAddress(), reach.nativePort())) {
            checkAlive();
            if (System.nanoTime() - start > timeout.toNanos()) return false;
            Processes.pause();
        }
        awaitAnswers();
        return true;
    }

    /**
     * Cassandra opens the port a moment before it takes requests, and answers until then that it is
     * shutting down.
     */
    private void awaitAnswers() {
        long opened = System.nanoTime();
        while (!systemLog.newText().contains("Startup complete")
                && System.nanoTime() - opened < logged.toNanos()) {
            checkAlive();
            Processes.pause();
        }
    }

    private void checkAlive() {
        if (isAlive()) return;
        forget();
        throw new NodeException(
                "the node ended before CQL was open (exit code %d, log %s)\n%s"
                        .formatted(exitCode(), logFile(), tail()));
    }

    /** Whether the process runs. */
    public boolean isAlive() {
        Process started = process;
        return started != null && started.isAlive();
    }

    /** The process id, also after the process has ended. */
    public long pid() {
        return process().pid();
    }

    /** The exit code of the ended process: 143 after a graceful stop, 137 after a kill. */
    public int exitCode() {
        return process().exitValue();
    }

    /** Waits for the process to end by itself, and returns its exit code. */
    public int waitFor() throws InterruptedException {
        int exitCode = process().waitFor();
        forget();
        return exitCode;
    }

    /** Crashes the node (SIGKILL) and waits for its end. */
    public void kill() {
        if (!ended(process().destroyForcibly(), KILL_TIMEOUT))
            throw new NodeException("the node (pid " + pid() + ") outlives a SIGKILL");
        forget();
    }

    /** Stops the node gracefully (SIGTERM: it drains), within 90 seconds. */
    public void stop() {
        stop(STOP_TIMEOUT);
    }

    /** Stops the node gracefully; throws a {@link NodeException} if it has not ended in time. */
    public void stop(Duration timeout) {
        Process running = process();
        running.destroy();
        if (!ended(running, timeout))
            throw new NodeException(
                    "the node (pid %d) has not stopped in %d s, log %s"
                            .formatted(pid(), timeout.toSeconds(), logFile()));
        forget();
    }

    /** The address that clients connect to. */
    public String address() {
        return settings().rpcAddress();
    }

    /** The port of CQL. */
    public int nativePort() {
        return settings().nativePort();
    }

    /** The port that other nodes connect to. */
    public int storagePort() {
        return settings().storagePort();
    }

    /** The loopback port of JMX. */
    public int jmxPort() {
        return settings().jmxPort();
    }

    /** The node's directory. */
    public NodeDirectory directory() {
        return directory;
    }

    /** Runs a nodetool command against the node. */
    public NodeTool.Result nodetool(String... arguments) {
        return new NodeTool(config.distribution(), directory).run(arguments);
    }

    /** Cassandra's log. */
    public Path logFile() {
        return directory.systemLog();
    }

    /** The text of Cassandra's log of all runs; empty before the first run. */
    public String log() {
        return systemLog.text();
    }

    /** The text of Cassandra's log since the last start. */
    public String logSinceStart() {
        return systemLog.newText();
    }

    /** What the process printed to its standard and error outputs since the last start. */
    public String outputSinceStart() {
        return output.newText();
    }

    /** Where a node of {@link #prepareForAnotherJvm} takes CQL, for a health check. */
    String healthcheck() {
        NodeSettings reach = settings();
        return "%s %d %s\n"
                .formatted(
                        reach.rpcAddress(), reach.nativePort(), reach.clientTls() ? "tls" : "cql");
    }

    /** The last lines of the output and of Cassandra's log since the last start. */
    String tail() {
        return Stream.of(output.tail(15), systemLog.tail(25))
                .filter(text -> !text.isBlank())
                .reduce((first, second) -> first + "\n" + second)
                .orElse("nothing was logged");
    }

    /** The path of {@code java} in the JDK of this process. */
    static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    /**
     * Prepares the directory as {@link #start} does, for a node in a JVM that the caller starts,
     * such as a benchmark's.
     *
     * @return the options of that JVM, without the class path, which is {@link #classPath}, and the
     *     main class, {@code org.apache.cassandra.service.CassandraDaemon}
     */
    public List<String> prepareForAnotherJvm() {
        config.distribution().check();
        directory.createRoot();
        StartLock.hold(directory, this::prepare);
        return options();
    }

    private void startAlone() {
        prepare();
        systemLog.mark();
        output.mark();
        Process started = spawn();
        process = started;
        try {
            pidFile.write(started.pid());
            endWithThisJvm();
        } catch (NodeException e) {
            // Nothing would ever stop it: it has a session of its own, and petra stop could not
            // find it.
            if (!ended(started.destroyForcibly(), KILL_TIMEOUT))
                throw new NodeException(
                        e.getMessage() + "; the node (pid %d) runs, kill it".formatted(pid()), e);
            pidFile.remove(pid());
            throw new NodeException(e.getMessage() + "; the node was not started", e);
        }
    }

    private void endWithThisJvm() {
        if (!config.endWithThisJvm() || endHook != null) return;
        Thread hook = new Thread(this::endQuietly, "end-node");
        try {
            Runtime.getRuntime().addShutdownHook(hook);
        } catch (IllegalStateException e) {
            throw new NodeException("this process is ending", e);
        }
        endHook = hook;
    }

    private void prepare() {
        pidFile.live().ifPresent(this::refuseSecond);
        ConfFiles files = new ConfFiles(config);
        NodeSettings read = files.check();
        Ports.check(read);
        directory.create();
        files.write();
        settings = read;
    }

    private Process spawn() {
        ProcessBuilder builder =
                new ProcessBuilder(command())
                        .directory(directory.root().toFile())
                        .redirectInput(NO_INPUT)
                        .redirectErrorStream(true)
                        .redirectOutput(
                                ProcessBuilder.Redirect.appendTo(directory.output().toFile()));
        // Else glibc keeps freed native memory in an arena for nearly every thread. jemalloc
        // ignores
        // the variable.
        builder.environment().putIfAbsent("MALLOC_ARENA_MAX", "2");
        try {
            return builder.start();
        } catch (IOException e) {
            throw new NodeException("cannot start a JVM: " + e.getMessage(), e);
        }
    }

    private List<String> command() {
        List<String> command = new ArrayList<>();
        ownSession().ifPresent(command::add);
        command.addAll(config.wrapper());
        command.add(java());
        command.addAll(options());
        command.add("-cp");
        command.add(classPath());
        command.add("org.apache.cassandra.service.CassandraDaemon");
        return command;
    }

    private List<String> options() {
        Distribution distribution = config.distribution();
        List<String> options = new ArrayList<>();
        options.add(PidFile.mark(directory));
        options.addAll(JvmOptions.access());
        options.addAll(JvmOptions.read(directory).lines());
        options.add("-Dcassandra.config=" + directory.yaml().toUri());
        options.add("-Dcassandra.storagedir=" + directory.root());
        options.add("-Dcassandra.logdir=" + directory.logs());
        options.add("-Dcassandra.triggers_dir=" + directory.triggers());
        options.add("-Dlogback.configurationFile=" + directory.logback());
        options.add("-Dcassandra-foreground=yes");
        options.add("-Dcom.sun.management.jmxremote.authenticate=false");
        options.add("-Dio.netty.tryReflectionSetAccessible=true");
        options.add("-XX:HeapDumpPath=" + directory.logs());
        options.add("-XX:ErrorFile=" + directory.logs().resolve("hs_err_pid%p.log"));
        distribution.jamm().ifPresent(jamm -> options.add("-javaagent:" + jamm));
        if (config.agent()) options.add("-javaagent:" + distribution.plugin());
        options.addAll(config.jvmOptions());
        return options;
    }

    /**
     * The class path of the node. The folder {@code conf} is last, because a class-data archive
     * (CDS) requires that the jars it was made from come first; no jar has files of the same names.
     */
    public String classPath() {
        Distribution distribution = config.distribution();
        List<Path> own = new ArrayList<>(config.classPath());
        if (config.plugin()) own.add(distribution.plugin());
        return distribution.classPath(own) + File.pathSeparator + directory.conf();
    }

    /**
     * The program that starts the node in a session of its own, {@code setsid}: so neither Ctrl-C
     * nor the end of the terminal ends the node directly, without its launcher. Without {@code
     * setsid} it is {@code nohup}, which protects from the end of the terminal only.
     */
    private static Optional<String> ownSession() {
        List<String> folders =
                List.of(System.getenv().getOrDefault("PATH", "").split(File.pathSeparator, -1));
        return Stream.of("setsid", "nohup")
                .filter(
                        program ->
                                folders.stream()
                                        .anyMatch(f -> Files.isExecutable(Path.of(f, program))))
                .findFirst();
    }

    private void refuseSecond(ProcessHandle running) {
        throw new NodeException(
                "a node already runs in %s (pid %d, from %s)"
                        .formatted(directory.root(), running.pid(), directory.pidFile()));
    }

    private void forget() {
        pidFile.remove(pid());
        Thread hook = endHook;
        endHook = null;
        if (hook != null) {
            try {
                Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException e) {
                // The hook is running; it finds that the process has ended.
                return;
            }
        }
    }

    /** Stops the node when this JVM ends; kills it if it does not stop in time. */
    private void endQuietly() {
        Process running = process();
        running.destroy();
        if (!ended(running, STOP_TIMEOUT)) ended(running.destroyForcibly(), KILL_TIMEOUT);
        pidFile.remove(running.pid());
    }

    private static boolean ended(Process process, Duration timeout) {
        try {
            return process.waitFor(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new NodeException("interrupted while waiting for a node", e);
        }
    }

    private Process process() {
        Process started = process;
        if (started == null)
            throw new IllegalStateException("the node in " + directory.root() + " was not started");
        return started;
    }

    private NodeSettings settings() {
        NodeSettings read = settings;
        if (read == null)
            throw new IllegalStateException("the node in " + directory.root() + " was not started");
        return read;
    }
}
