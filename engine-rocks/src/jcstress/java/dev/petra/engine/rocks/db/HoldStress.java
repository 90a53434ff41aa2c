// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.rocks.Tables;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;

/**
 * Opens stores anew after a full disk, closes and drops them, while threads do nothing but read
 * them by leases. Each sees all that there is, until it is told to take another lease or that there
 * is no store. A process of its own, since what it looks for may end it: {@link HoldTest}.
 */
final class HoldStress {
    private static final int STORES = 4;
    private static final int READERS = 3;

    private final StorageEngine engine = Tables.engine(HoldTest.SETTINGS);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final AtomicInteger healed = new AtomicInteger();
    private final AtomicInteger closed = new AtomicInteger();
    private final AtomicInteger dropped = new AtomicInteger();
    private final AtomicInteger revoked = new AtomicInteger();
    private final long end;

    private HoldStress(long end) {
        this.end = end;
    }

    /** Directory, seed, seconds. */
    public static void main(String[] args) throws Exception {
        // Cassandra's threads are still there, and others where it has failed.
        Thread.setDefaultUncaughtExceptionHandler(
                (thread, failure) -> {
                    failure.printStackTrace();
                    System.exit(1);
                });
        run(Path.of(args[0]), Long.parseLong(args[1]), Long.parseLong(args[2]));
        System.exit(0);
    }

    private static void run(Path directory, long seed, long seconds) throws Exception {
        HoldStress stress = new HoldStress(System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds));
        List<Future<?>> stores = new ArrayList<>();
        for (int i = 0; i < STORES; i++) {
            Path its = directory.resolve(Integer.toString(i));
            Random random = new Random(seed + i);
            stores.add(
                    stress.threads.submit(
                            () -> {
                                stress.store(its, random);
                                return true;
                            }));
        }
        for (Future<?> store : stores) store.get();
        stress.engine.close();
        System.out.println(
                "healed %s, closed %s, dropped %s, revoked %s"
                        .formatted(stress.healed, stress.closed, stress.dropped, stress.revoked));
    }

    private void store(Path directory, Random random) throws Exception {
        do {
            TableStore store = Tables.open(engine, directory, HoldTest.TABLE);
            ReopenableDatabase reopenable = Tables.context(store).reopenable();
            if (store.isEmpty()) HoldTest.fill(store);
            try (Hold hold = reopenable.hold()) {
                AtomicInteger[] read = new AtomicInteger[READERS];
                List<Future<?>> readers = new ArrayList<>();
                for (int i = 0; i < READERS; i++) {
                    AtomicInteger mine = new AtomicInteger();
                    read[i] = mine;
                    Random own = new Random(random.nextLong());
                    readers.add(
                            threads.submit(
                                    () -> {
                                        read(reopenable, hold, own, mine);
                                        return true;
                                    }));
                }
                awaitReaders(readers, read);
                if (random.nextInt(4) == 0) {
                    var unused = reopenable.healing.failed(Tables.noSpace());
                    Tables.heal(reopenable);
                    healed.incrementAndGet();
                    awaitReaders(readers, read);
                }
                if (random.nextBoolean()) {
                    store.close();
                    closed.incrementAndGet();
                } else {
                    drop(store, hold, readers, read);
                    dropped.incrementAndGet();
                }
                for (Future<?> reader : readers) reader.get();
            }
        } while (System.nanoTime() < end || isAnyMissing());
    }

    /** On a busy machine the time may be too short for one of them. */
    private boolean isAnyMissing() {
        return Stream.of(healed, closed, dropped, revoked).anyMatch(each -> each.get() == 0);
    }

    private static void drop(
            TableStore store, Hold hold, List<Future<?>> readers, AtomicInteger[] read)
            throws Exception {
        try {
            store.drop();
        } catch (IllegalStateException e) {
            awaitReaders(readers, read);
            hold.close();
            store.drop();
            return;
        }
        throw new AssertionError("dropped while it was held");
    }

    /** Until each has seen the whole store once more. */
    private static void awaitReaders(List<Future<?>> readers, AtomicInteger[] read)
            throws Exception {
        for (int i = 0; i < READERS; i++) {
            // One more may have begun before.
            int wanted = read[i].get() + 2;
            while (read[i].get() < wanted) {
                if (readers.get(i).isDone()) throw new AssertionError(readers.get(i).get() + "");
                Thread.sleep(1);
            }
        }
    }

    private void read(ReopenableDatabase reopenable, Hold hold, Random random, AtomicInteger read)
            throws RocksDBException {
        try (ReadOptions options = Database.newReadOptions()) {
            while (true) {
                try (Lease lease = hold.lease(options)) {
                    while (random.nextInt(20) > 0 && pass(lease, random)) read.incrementAndGet();
                }
            }
        } catch (IllegalStateException e) {
            // Else it was open to this one.
            if (!reopenable.isClosed()) throw e;
        }
    }

    /** Reads all, a few entries at a time; false if the lease was revoked. */
    private boolean pass(Lease lease, Random random) throws RocksDBException {
        int rows = 0;
        int large = 0;
        boolean first = true;
        while (true) {
            boolean begins = first;
            int most = 1 + random.nextInt(HoldTest.ROWS);
            int[] more =
                    lease.read(
                            (rowsAt, largeAt) -> {
                                if (begins) {
                                    rowsAt.seekToFirst();
                                    largeAt.seekToFirst();
                                }
                                return new int[] {
                                    HoldTest.skip(rowsAt, most), HoldTest.skip(largeAt, most)
                                };
                            });
            if (more == null) {
                revoked.incrementAndGet();
                return false;
            }
            first = false;
            rows += more[0];
            large += more[1];
            if (more[0] < most && more[1] < most) break;
        }
        if (rows != HoldTest.ROWS || large != HoldTest.ROWS / 2)
            throw new AssertionError(rows + " rows, " + large + " large cells");
        return true;
    }
}
