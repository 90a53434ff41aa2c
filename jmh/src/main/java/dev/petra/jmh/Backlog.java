// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.Histogram;

/**
 * Reads in a closed loop of a table that was overwritten while nothing was compacted: before
 * compaction begins, in each third of its time, and when it is done.
 */
final class Backlog {
    /** An engine may look for work but every few seconds; no longer than engines are compared. */
    private static final int PATIENCE = 10;

    /** How long the engines are compared, of the time that anything else is measured. */
    private static final int HORIZON = 6;

    /** So many seconds of rest are the end. */
    private static final int REST = 3;

    private final Access access;
    private final Workload workload;
    private final Probe probe;
    private final int seconds;
    private final int clients;
    private final SplittableRandom seeds;
    private final int warmups;

    /** All, since compaction was let begin. */
    private long reads;

    /** A second of it. */
    private record Slice(Histogram latencies, long nanos, long writtenBytes) {
        boolean isRest() {
            return writtenBytes <= Quiet.REST_BYTES;
        }
    }

    /**
     * @param seconds how long what does not end by itself is measured
     * @param clients as many ask at once
     * @param seed of the keys
     * @param warmups how many times the seconds it is warmed up at most
     */
    Backlog(Access access, Workload workload, int seconds, int clients, long seed, int warmups) {
        this.access = access;
        this.workload = workload;
        this.probe = access.probe();
        this.seconds = seconds;
        this.clients = clients;
        this.seeds = new SplittableRandom(seed);
        this.warmups = warmups;
    }

    /** Measures, of a table that is empty and gets its rows here. */
    void measure() {
        access.compacting(false);
        Access.load(access, workload, 16);
        // All of it is in files, of every engine.
        access.flush();
        Quiet.await(probe, seconds);
        Quiet.sync();
        WarmUp.run(() -> rate(slices(seconds)), warmups).report();
        report("before", slices(seconds));
        reads = 0;
        StallProfiler.restart();
        access.compacting(true);
        List<Slice> meanwhile = untilRest();
        StallProfiler.stop(reads);
        List<Slice> quiet = slices(Math.max(seconds, HORIZON * seconds - meanwhile.size()));
        // For those who ask how many reads there are, and not what the engine does meanwhile.
        List<Slice> horizon = new ArrayList<>(meanwhile);
        horizon.addAll(quiet);
        report("in the first " + HORIZON * seconds + " s", horizon.subList(0, HORIZON * seconds));
        for (int third = 0; third < 3 && meanwhile.size() >= 3; third++)
            report(
                    "in third " + (third + 1),
                    meanwhile.subList(
                            third * meanwhile.size() / 3, (third + 1) * meanwhile.size() / 3));
        report("when quiet", quiet);
        StallProfiler.add("compaction took", nanos(meanwhile) / 1e9, "s");
        if (!meanwhile.isEmpty())
            StallProfiler.add(
                    "reads while compacting, of quiet", 100 * rate(meanwhile) / rate(quiet), "%");
    }

    /** From the first second in which something was compacted to the last. */
    private List<Slice> untilRest() {
        List<Slice> slices = new ArrayList<>();
        int patience = Math.min(PATIENCE, HORIZON * seconds);
        for (int waited = 0; waited < patience && slices.isEmpty(); waited++) {
            Slice slice = slice();
            if (!slice.isRest()) slices.add(slice);
        }
        int rest = 0;
        while (!slices.isEmpty() && rest < REST) {
            Slice slice = slice();
            slices.add(slice);
            rest = slice.isRest() ? rest + 1 : 0;
        }
        return slices.subList(0, slices.size() - rest);
    }

    private List<Slice> slices(int count) {
        List<Slice> slices = new ArrayList<>();
        for (int i = 0; i < count; i++) slices.add(slice());
        return slices;
    }

    private Slice slice() {
        long written = probe.now().all().dirtiedBytes();
        long began = System.nanoTime();
        OpenLoop loop = new OpenLoop(access, workload, 1, seeds.nextLong(), clients);
        loop.run(Double.POSITIVE_INFINITY, 1);
        reads += loop.reads.getTotalCount();
        return new Slice(
                loop.reads, System.nanoTime() - began, probe.now().all().dirtiedBytes() - written);
    }

    private static void report(String when, List<Slice> slices) {
        // As wide, and empty.
        Histogram all = new Histogram(slices.get(0).latencies);
        slices.forEach(slice -> all.add(slice.latencies));
        StallProfiler.add("reads " + when, rate(slices), "ops/s");
        StallProfiler.add("read P99 " + when, all.getValueAtPercentile(99) / 1000.0, "us");
    }

    private static long reads(List<Slice> slices) {
        return slices.stream().mapToLong(slice -> slice.latencies.getTotalCount()).sum();
    }

    private static long nanos(List<Slice> slices) {
        return slices.stream().mapToLong(Slice::nanos).sum();
    }

    private static double rate(List<Slice> slices) {
        return reads(slices) * (double) TimeUnit.SECONDS.toNanos(1) / nanos(slices);
    }
}
