// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProbeTest {
    @TempDir Path directory;

    /** Another JVM, since this one has no such log. */
    @Test
    void pausesAreReadFromTheLogThatTheJvmWrites() throws IOException, InterruptedException {
        Path program = directory.resolve("Pauses.java");
        Files.writeString(
                program,
                "class Pauses { public static void main(String[] a) {"
                        + " for (int i = 0; i < 5; i++) System.gc(); } }");
        long begun = System.currentTimeMillis();
        Probe probe = run(program, "-XX:+UseG1GC");
        List<Probe.Pause> pauses = probe.pauses(at(begun), at(System.currentTimeMillis()));
        assertThat(pauses)
                .filteredOn(pause -> pause.reason().equals("G1CollectFull"))
                .hasSize(5)
                .allSatisfy(
                        pause -> {
                            assertThat(pause.nanos()).isBetween(10_000L, 60_000_000_000L);
                            assertThat(pause.reachingNanos()).isBetween(1L, pause.nanos());
                        });
        assertThat(probe.pauses(at(0), at(begun - 1))).isEmpty();
        // What main has is old after the first of them.
        assertThat(probe.promoted(at(begun), at(System.currentTimeMillis())).getAsLong())
                .isPositive();
        assertThat(probe.promoted(at(0), at(begun - 1))).hasValue(0);
    }

    /** Of a heap that is too small for what two threads make; another JVM. */
    @Test
    void allocationStallsAreReadFromTheLogThatTheJvmWrites()
            throws IOException, InterruptedException {
        Path program = directory.resolve("Stalls.java");
        Files.writeString(
                program,
                "class Stalls { static volatile byte[][] kept = new byte[400][]; public static void"
                        + " main(String[] a) { for (int i = 0; i < 40_000; i++) kept[i % 400] ="
                        + " new byte[100_000]; } }");
        Probe probe = run(program, "-XX:+UseZGC", "-Xmx64m");
        assertThat(probe.allocationStalls(at(0), at(System.currentTimeMillis())))
                .isNotEmpty()
                .allSatisfy(wait -> assertThat(wait.nanos()).isBetween(0L, 60_000_000_000L));
        assertThat(probe.allocationStalls(at(0), at(1))).isEmpty();
    }

    @Test
    void threadsThatWaitAtTheSameTimeWaitOnce() {
        assertThat(
                        Probe.union(
                                List.of(
                                        new Probe.Wait(0, 100, 10_000_000),
                                        new Probe.Wait(0, 105, 10_000_000),
                                        new Probe.Wait(0, 104, 2_000_000),
                                        new Probe.Wait(0, 50, 1_000_000))))
                .isEqualTo(16_000_000);
        assertThat(Probe.union(List.of())).isZero();
    }

    @Test
    void whatAnEngineSaysOfItsWritesIsAmongItsCounters() {
        Probe.Watched mine = new Probe.Watched(ProcessHandle.current().pid(), directory);
        assertThat(new Probe(List.of(mine, mine.with(() -> 7))).now().all().stalledNanos())
                .isEqualTo(7);
    }

    /** As 'petra bench' and 'petra replay' ask it, each node of an engine of Petra's. */
    @Test
    void nodesOfTheEngineAreAskedForHowLongTheyTookNoWrites() {
        ClientAccess.Target target =
                new ClientAccess.Target() {
                    @Override
                    public List<InetSocketAddress> nodes() {
                        return List.of(new InetSocketAddress(3), new InetSocketAddress(4));
                    }

                    @Override
                    public void nodetool(String... command) {
                        throw new UnsupportedOperationException();
                    }

                    @Override
                    public Probe probe() {
                        Probe.Watched mine =
                                new Probe.Watched(ProcessHandle.current().pid(), directory);
                        return new Probe(List.of(mine, mine));
                    }

                    @Override
                    public void close() {}
                };
        assertThat(stalledNanos(Engine.ROCKS, target)).containsExactly(3L, 4L);
        assertThat(stalledNanos(Engine.LEGACY_LATEST, target)).containsExactly(0L, 0L);
    }

    private static List<Long> stalledNanos(Engine engine, ClientAccess.Target target) {
        return ClientAccess.stalling(engine, target, InetSocketAddress::getPort)
                .now()
                .processes()
                .stream()
                .map(Probe.Counters::stalledNanos)
                .toList();
    }

    private static Probe.Moment at(long millis) {
        return new Probe.Moment(millis, List.of());
    }

    @Test
    void whatBecameOldIsWhatTheOldGenerationGrewBy() throws IOException {
        Files.writeString(
                directory.resolve("safepoints.log"),
                """
                [900ms] Heap Region Size: 16M
                [1000ms] GC(0) Old regions: 1->3
                [1000ms] GC(0) Eden regions: 24->0(23)
                [1500ms] GC(1) Old regions: 9->2
                [2000ms] GC(2) Old regions: 2->3
                [2001ms] GC(3) Old regions: 3->9
                """);
        Probe probe = new Probe(1, directory);
        assertThat(probe.promoted(at(1000), at(2000))).hasValue(3L * (16 << 20));
        Files.writeString(directory.resolve("safepoints.log"), "");
        assertThat(probe.promoted(at(1000), at(2000))).isEmpty();
    }

    @Test
    void aProcessIsSeenToWorkAndToWrite() throws IOException {
        Probe probe = new Probe(ProcessHandle.current().pid(), directory);
        Probe.Moment before = probe.now();
        Files.write(directory.resolve("file"), new byte[1 << 20]);
        ThreadMXBean threads = ManagementFactory.getThreadMXBean();
        long end = threads.getCurrentThreadCpuTime() + 300_000_000;
        long sum = 0;
        while (threads.getCurrentThreadCpuTime() < end) sum++;
        Probe.Moment after = probe.now();
        assertThat(sum).isPositive();
        assertThat(after.all().cpuNanos() - before.all().cpuNanos()).isGreaterThan(50_000_000);
        assertThat(after.all().writtenBytes()).isGreaterThanOrEqualTo(before.all().writtenBytes());
        assertThat(after.all().residentBytes()).isGreaterThan(1 << 20);
    }

    @Test
    void whatIsDeletedBeforeItIsOnDiskIsNotWritten() throws IOException {
        Path file = directory.resolve("short-lived");
        Probe probe = new Probe(ProcessHandle.current().pid(), directory);
        long dirtied = 0;
        long written = 0;
        // Where memory is scarce, all of it may be on disk before it is deleted.
        for (int attempt = 0; attempt < 10 && written >= dirtied; attempt++) {
            Quiet.sync();
            Probe.Counters before = probe.now().all();
            Files.write(file, new byte[64 << 20]);
            Files.delete(file);
            Probe.Counters after = probe.now().all();
            dirtied = after.dirtiedBytes() - before.dirtiedBytes();
            // Where files are in memory, there is no disk.
            assumeTrue(dirtied >= 64 << 20, "no file system on a disk");
            written = after.writtenBytes() - before.writtenBytes();
        }
        assertThat(written).isLessThan(dirtied);
    }

    @Test
    void processesAreAddedUp() {
        Probe.Watched one = new Probe.Watched(ProcessHandle.current().pid(), directory);
        long single = new Probe(List.of(one)).now().all().residentBytes();
        assertThat(new Probe(List.of(one, one)).now().all().residentBytes()).isGreaterThan(single);
    }

    @Test
    void pausesAreOfTheirProcess() throws IOException {
        Path other = Files.createDirectory(directory.resolve("other"));
        for (Path log : List.of(directory, other))
            Files.writeString(
                    log.resolve("safepoints.log"),
                    "[1000ms] Safepoint \"Cleanup\", Total:  " + log.getNameCount() + " ns\n");
        Probe probe =
                new Probe(List.of(new Probe.Watched(1, directory), new Probe.Watched(2, other)));
        assertThat(probe.pauses(at(0), at(2000)))
                .containsExactly(
                        new Probe.Pause(0, 1000, "Cleanup", directory.getNameCount(), 0),
                        new Probe.Pause(1, 1000, "Cleanup", other.getNameCount(), 0));
    }

    /** Of a JVM that has run a program. */
    private Probe run(Path program, String... options) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of(options));
        command.add(Probe.option(directory));
        command.add(program.toString());
        Process process = new ProcessBuilder(command).inheritIO().start();
        assertThat(process.waitFor()).isZero();
        return new Probe(process.pid(), directory);
    }
}
