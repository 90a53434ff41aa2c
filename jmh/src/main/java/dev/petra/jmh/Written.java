// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Which writes of a workload's rows are acknowledged, so that a read can be held against the newest
 * of them. Rows are either overwritten, or others are added behind them. Used by many threads.
 */
abstract sealed class Written {
    /** Begins a write; nothing else is under way of the row until its {@link #end}. */
    abstract long begin(SplittableRandom random);

    /** The version of the write of a row that is under way. */
    abstract int version(long number);

    /** The write of a row is acknowledged. */
    abstract void end(long number);

    /** Writes a row. */
    final void write(Access access, SplittableRandom random) {
        long number = begin(random);
        access.write(number, version(number));
        end(number);
    }

    /** Rows below this number are there. */
    abstract long there();

    /** Rows from this number on are not: their writes have not begun. */
    abstract long begun();

    /** The newest version of a row that is acknowledged. */
    abstract int acknowledged(long number);

    /** The same, or the next if that is being written. */
    abstract int newest(long number);

    /** Keeps it for another process, while nothing is written. */
    abstract void save(Path file) throws IOException;

    /** What another process has kept. */
    abstract void restore(Path file) throws IOException;

    /** Rows that are overwritten, each by one write at a time: a byte for each. */
    static final class Over extends Written {
        /** The bit of a write that is under way; the version is above it. */
        private static final int UNDER_WAY = 1;

        /** From where on versions begin anew: far more than are written during one read. */
        static final int MOST = 128;

        private static final int ATTEMPTS = 1000;
        private static final VarHandle BYTES = MethodHandles.arrayElementVarHandle(byte[].class);

        private final byte[] rows;

        Over(long rows, int version) {
            this.rows = new byte[Math.toIntExact(rows)];
            Arrays.fill(this.rows, (byte) (version << 1));
        }

        private byte state(long number) {
            return (byte) BYTES.getVolatile(rows, (int) number);
        }

        @Override
        long begin(SplittableRandom random) {
            for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
                int number = random.nextInt(rows.length);
                byte state = state(number);
                if ((state & UNDER_WAY) == 0
                        && BYTES.compareAndSet(rows, number, state, (byte) (state | UNDER_WAY)))
                    return number;
            }
            throw new IllegalStateException(
                    rows.length + " rows are too few for so many writes at once: raise '--scale'");
        }

        @Override
        int version(long number) {
            return (acknowledged(number) + 1) % MOST;
        }

        @Override
        void end(long number) {
            BYTES.setVolatile(rows, (int) number, (byte) (version(number) << 1));
        }

        @Override
        long there() {
            return rows.length;
        }

        @Override
        long begun() {
            return rows.length;
        }

        @Override
        int acknowledged(long number) {
            return (state(number) & 0xFF) >> 1;
        }

        @Override
        int newest(long number) {
            byte state = state(number);
            return (((state & 0xFF) >> 1) + (state & UNDER_WAY)) % MOST;
        }

        @Override
        void save(Path file) throws IOException {
            Files.write(file, rows);
        }

        @Override
        void restore(Path file) throws IOException {
            byte[] kept = Files.readAllBytes(file);
            System.arraycopy(kept, 0, rows, 0, rows.length);
        }
    }

    /** Rows that are added, one after the other, and never written again. */
    static final class Behind extends Written {
        private final AtomicLong next;

        /** Acknowledged before a row in front of them: as many as are under way at most. */
        private final TreeSet<Long> early = new TreeSet<>();

        private volatile long there;

        Behind(long rows) {
            next = new AtomicLong(rows);
            there = rows;
        }

        @Override
        long begin(SplittableRandom random) {
            return next.getAndIncrement();
        }

        @Override
        int version(long number) {
            return 0;
        }

        @Override
        synchronized void end(long number) {
            early.add(number);
            long first = there;
            while (early.remove(first)) first++;
            there = first;
        }

        @Override
        long there() {
            return there;
        }

        @Override
        long begun() {
            return next.get();
        }

        @Override
        int acknowledged(long number) {
            return 0;
        }

        @Override
        int newest(long number) {
            return 0;
        }

        @Override
        void save(Path file) throws IOException {
            Files.write(file, ByteBuffer.allocate(Long.BYTES).putLong(0, next.get()).array());
        }

        @Override
        void restore(Path file) throws IOException {
            long kept = ByteBuffer.wrap(Files.readAllBytes(file)).getLong();
            next.set(kept);
            there = kept;
        }
    }
}
