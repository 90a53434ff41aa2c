// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes.State;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.WriteBarrier;
import dev.petra.engine.rocks.stream.SentStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;
import org.junit.jupiter.api.Test;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksIterator;

/** What crashes, full disks and streams leave of indexes: never a row without its entry. */
class IndexCrashTest extends IndexFixture {
    private static final long SEED = Long.getLong("petra.seed", System.nanoTime());

    /** The keys in the column family of indexes, whoever's they are. */
    private static int stored(TableStore in) {
        Database database = Tables.context(in).database();
        int count = 0;
        try (RocksIterator it = database.db.newIterator(Objects.requireNonNull(database.index()))) {
            for (it.seekToFirst(); it.isValid(); it.next()) count++;
        }
        return count;
    }

    private static String format(Path of) throws IOException {
        return Files.readAllLines(of.resolve(StoreDescriptor.NAME)).stream()
                .filter(line -> line.startsWith("format="))
                .findFirst()
                .orElseThrow();
    }

    /** Wherever the log is torn, and whichever column family was flushed before. */
    @Test
    void aTornLogLeavesBothOrNeither() throws Exception {
        Random random = new Random(SEED);
        store.indexes().define(INDEX);
        // It is synced: no crash takes it from the log.
        store.flush();
        int written = 0;
        int torn = 0;
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < 20; i++) write(store, written++);
            if (round % 3 > 0) {
                Database database = Tables.context(store).database();
                try (FlushOptions options = new FlushOptions().setWaitForFlush(true)) {
                    database.db.flush(
                            options,
                            round % 3 == 1
                                    ? database.data
                                    : Objects.requireNonNull(database.index()));
                }
                for (int i = 0; i < 20; i++) write(store, written++);
            }
            Tables.awaitFlushes(store);
            for (int copy = 0; copy < 6; copy++) {
                Path crashed =
                        Tables.crashed(store, directory.resolve("crashed" + round + "." + copy));
                tear(crashed, random);
                List<Integer> rows = Tables.numbers(engine, crashed, TABLE);
                try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
                    assertThat(indexed(opened)).as("seed %d", SEED).isEqualTo(rows);
                }
                for (int i = 0; i < rows.size(); i++)
                    assertThat(rows.get(i)).as("seed %d", SEED).isEqualTo(i);
                if (rows.size() < written) torn++;
            }
        }
        assertThat(torn).as("seed %d", SEED).isPositive();
    }

    /** Takes some bytes from the end of the last log. */
    private static void tear(Path crashed, Random random) throws IOException {
        Path last = null;
        try (var logs = Files.newDirectoryStream(crashed, "*.log")) {
            for (Path log : logs) if (last == null || log.compareTo(last) > 0) last = log;
        }
        try (RandomAccessFile file =
                new RandomAccessFile(Objects.requireNonNull(last).toFile(), "rw")) {
            file.setLength(random.nextLong(file.length() + 1));
        }
    }

    /** Stores without an index stay as they were; an older version refuses those with one. */
    @Test
    void theFirstDefinitionRaisesTheFormat() throws Exception {
        Path plain = directory.resolve("1");
        write(store, List.of(), 1);
        assertThat(format(plain)).isEqualTo("format=2");
        assertThat(Tables.context(store).database().index()).isNull();
        store.indexes().define(INDEX);
        assertThat(format(plain)).isEqualTo("format=3");
        store.checkpoint(directory.resolve("copy"));
        assertThat(format(directory.resolve("copy"))).isEqualTo("format=3");
        store.indexes().drop(INDEX);
        store.close();
        store = Tables.open(engine, plain, TABLE);
        assertThat(format(plain)).isEqualTo("format=3");
        store.close();
        Tables.describe(plain, "format=3", "format=4");
        assertThatThrownBy(() -> Tables.open(engine, plain, TABLE))
                .isInstanceOf(CorruptStoreException.class)
                .hasMessageContaining("format 4")
                .hasMessageContaining("1 to 3");
    }

    private static void write(TableStore to, List<TermEntry> entries, int row) {
        var update = Tables.update(TABLE, row);
        update.row().add("v", "v" + row);
        to.write(update.build(), entries);
    }

    /** An index that is rebuilt is dropped each time. */
    @Test
    void whatADropRemovedIsNotRemovedAgainByTheNext() throws Exception {
        for (int i = 0; i < 10; i++) {
            store.indexes().define(INDEX);
            write(store, i);
            store.indexes().drop(INDEX);
        }
        // An entry and a range of each.
        assertThat(property("rocksdb.num-entries-active-mem-table")).isEqualTo(20);
    }

    /** The store knew no such index any more, and its entries stayed until it was opened again. */
    @Test
    void whatADropThatFailedHasLeftIsRemoved() throws Exception {
        store.indexes().define(INDEX);
        store.indexes().define(LATER);
        for (int i = 0; i < 10; i++) write(store, i);
        TermEntry other = new TermEntry(LATER, entry(1).term(), Clustering.EMPTY);
        store.indexes().add(Tables.key(TABLE, 1), List.of(other));
        // The first step of a drop.
        Tables.context(store).catalog().indexes().drop(INDEX);
        for (int time = 0; time < 2; time++) {
            store.indexes().removeLeft();
            assertThat(stored(store)).isOne();
            assertThat(indexed(store, LATER)).containsExactly(1);
            // The entries and one range.
            assertThat(property("rocksdb.num-entries-active-mem-table")).isEqualTo(12);
        }
    }

    /** Of the column family of indexes. */
    private long property(String name) throws Exception {
        Database database = Tables.context(store).database();
        return database.db.getLongProperty(Objects.requireNonNull(database.index()), name);
    }

    /** They were written anew first, and what the sweep then removed stayed on the disk. */
    @Test
    void whatASweepRemovesGoesFromTheDiskWhenGarbageIsCollected() throws Exception {
        store.indexes().define(INDEX);
        for (int i = 0; i < 10; i++) write(store, i);
        store.flush();
        assertThat(property("rocksdb.live-sst-files-size")).isPositive();
        AtomicLong removed = new AtomicLong();
        SweepCheck none = (term, key, clustering) -> false;
        store.collectGarbage(() -> removed.set(store.indexes().sweep(INDEX, none)));
        assertThat(removed).hasValue(10);
        assertThat(property("rocksdb.live-sst-files-size")).isZero();
        assertThat(property("rocksdb.num-entries-active-mem-table")).isZero();
        assertThat(has(store, 1)).isTrue();
    }

    /** The format is raised before the column family is made. */
    @Test
    void aCrashBeforeTheColumnFamilyIsMadeLeavesNoIndex() throws Exception {
        write(store, List.of(), 1);
        Path crashed = Tables.crashed(store, directory.resolve("crashed"));
        Tables.describe(crashed, "format=2", "format=3");
        try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
            assertThat(opened.indexes().states()).isEmpty();
            opened.indexes().define(INDEX);
            write(opened, 2);
            assertThat(indexed(opened)).containsExactly(2);
            assertThat(has(opened, 1)).isTrue();
        }
    }

    /** And its number is nobody's: not even what a late write brings is found. */
    @Test
    void aCrashInTheMidstOfADropLeavesTheIndexUndefined() throws Exception {
        store.indexes().define(INDEX);
        for (int i = 0; i < 10; i++) write(store, i);
        Tables.context(store).catalog().indexes().drop(INDEX);
        assertThat(stored(store)).isEqualTo(10);
        Path crashed = Tables.crashed(store, directory.resolve("crashed"));
        for (int time = 0; time < 2; time++)
            try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
                assertThat(opened.indexes().states()).isEmpty();
                assertThat(stored(opened)).isZero();
                assertThat(Tables.context(opened).catalog().indexes().leftovers()).isEmpty();
            }
        Path other = Tables.crashed(defined(LATER), directory.resolve("other"));
        try (TableStore opened = Tables.open(engine, other, TABLE)) {
            assertThat(opened.indexes().states()).containsOnlyKeys(LATER);
            assertThat(stored(opened)).isZero();
        }
        try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
            opened.indexes().define(INDEX);
            assertThat(Tables.context(opened).catalog().indexes().number(INDEX)).isEqualTo(1);
            assertThat(indexed(opened)).isEmpty();
        }
    }

    /** All of it stayed on the disk as long as the store was open. */
    @Test
    void whatIsLeftOfADropGoesFromTheDiskWhenTheStoreIsOpened() throws Exception {
        store.indexes().define(INDEX);
        for (int i = 0; i < 10; i++) write(store, i);
        store.flush();
        Tables.context(store).catalog().indexes().drop(INDEX);
        Path crashed = Tables.crashed(store, directory.resolve("crashed"));
        assertThat(filesOfIndexes(crashed)).isOne();
        try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
            assertThat(stored(opened)).isZero();
            Tables.await("that the file is gone", () -> filesOfIndexes(crashed) == 0);
        }
    }

    private static int filesOfIndexes(Path in) throws Exception {
        int count = 0;
        try (var files = Files.newDirectoryStream(in, "*.sst")) {
            for (Path file : files) if (familyOf(file).equals("index")) count++;
        }
        return count;
    }

    private TableStore defined(UUID index) {
        store.indexes().define(index);
        return store;
    }

    /** What asks for all column families would have used it after it was freed. */
    @Test
    void aColumnFamilyWhoseDropFailedIsNobodys() throws Exception {
        store.indexes().define(INDEX);
        write(store, 1);
        Database database = Tables.context(store).database();
        ColumnFamilyHandle dropped = Objects.requireNonNull(database.index());
        database.db.dropColumnFamily(dropped);
        assertThatThrownBy(
                        () ->
                                Tables.context(store)
                                        .reopenable()
                                        .maintain(Tables.context(store).reopenable()::renewIndex))
                .hasMessageContaining("already dropped");
        assertThat(database.index()).isNull();
        assertThat(database.families())
                .hasSize(3)
                .allMatch(ColumnFamilyHandle::isOwningHandle)
                .doesNotContain(dropped);
        assertThat(store.metrics()).isNotNull();
        store.close();
        assertThat(dropped.isOwningHandle()).isFalse();
    }

    /** RocksDB takes no column family for that of the rows, whose files it would delete. */
    @Test
    void whatADropHasLeftIsGoneWhereTheColumnFamilyIsMissing() throws Exception {
        store.indexes().define(INDEX);
        for (int i = 0; i < 10; i++) write(store, i);
        store.flush();
        Tables.context(store).catalog().indexes().drop(INDEX);
        var reopenable = Tables.context(store).reopenable();
        Database database = reopenable.database();
        database.db.dropColumnFamily(Objects.requireNonNull(database.index()));
        assertThatThrownBy(() -> reopenable.maintain(reopenable::renewIndex))
                .hasMessageContaining("already dropped");
        assertThat(database.index()).isNull();
        store.indexes().removeLeft();
        store.indexes().drop(INDEX);
        assertThatThrownBy(() -> indexed(store))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessageContaining("is not defined in this store");
        for (int time = 0; time < 2; time++) {
            for (int i = 0; i < 10; i++) assertThat(has(store, i)).isTrue();
            store = reopened();
            assertThat(Tables.context(store).catalog().indexes().leftovers()).isEmpty();
        }
        store.indexes().define(INDEX);
        write(store, 10);
        assertThat(indexed(store)).containsExactly(10);
        store.verify();
    }

    /** As RocksDB demands it where there is room again. */
    @Test
    void aDatabaseThatIsOpenedAnewHasItsIndexes() throws Exception {
        store.indexes().define(INDEX);
        store.indexes().setBuilt(INDEX, store.indexes().setBuilding(INDEX));
        store.indexes().deriveBy((key, row) -> List.of());
        for (int i = 0; i < 10; i++) write(store, i);
        var database = Tables.context(store).reopenable();
        assertThat(database.healing.failed(Tables.noSpace())).hasMessageContaining("full");
        Tables.heal(database);
        assertThat(store.indexes().states()).isEqualTo(Map.of(INDEX, State.BUILT));
        assertThat(indexed(store)).hasSize(10);
        write(store, 10);
        store.indexes().define(LATER);
        assertThat(indexed(store)).hasSize(11);
        assertThat(Tables.context(store).indexing().terms()).isNotNull();
    }

    private static TermFunction byValue(UUID... indexes) {
        return (key, row) -> {
            List<TermEntry> entries = new ArrayList<>();
            ByteBuffer value = row.cells().iterator().next().buffer();
            for (UUID index : indexes) entries.add(new TermEntry(index, value, row.clustering()));
            return entries;
        };
    }

    private SentStream sent(int rows) throws IOException {
        try (TableStore from = Tables.open(engine, directory.resolve("from"), TABLE)) {
            for (int i = 0; i < rows; i++) write(from, List.of(), i);
            return SentStream.of(from);
        }
    }

    /** An ingest takes a sequence number that is in no log; what comes later must not be lost. */
    @Test
    void whatWasIngestedAndWhatCameLaterHaveTheirEntriesAfterACrash() throws Exception {
        store.indexes().define(INDEX);
        store.indexes().deriveBy(byValue(INDEX));
        SentStream sent = sent(100);
        for (int round = 0; round < 3; round++) {
            write(store, 1_000 + round);
            sent.ingestedBy(store);
            write(store, 2_000 + round);
            store.syncLog();
            Tables.awaitFlushes(store);
            Path crashed = Tables.crashed(store, directory.resolve("crashed" + round));
            List<Integer> rows = Tables.numbers(engine, crashed, TABLE);
            assertThat(rows).hasSize(100 + 2 * (round + 1));
            try (TableStore opened = Tables.open(engine, crashed, TABLE)) {
                assertThat(indexed(opened)).isEqualTo(rows);
            }
        }
    }

    /**
     * Whoever builds it from what is there then does not find these rows: they are not live yet.
     */
    @Test
    void anIndexThatIsDefinedWhileEntriesAreDerivedHasThemToo() throws Exception {
        store.indexes().define(INDEX);
        SentStream sent = sent(10);
        AtomicReference<CompletableFuture<Boolean>> defined = new AtomicReference<>();
        store.indexes()
                .deriveBy(
                        (key, row) -> {
                            UUID[] known = store.indexes().states().keySet().toArray(UUID[]::new);
                            if (defined.get() == null) {
                                defined.set(
                                        CompletableFuture.supplyAsync(
                                                () -> {
                                                    store.indexes().define(LATER);
                                                    return has(store, 0);
                                                }));
                                // It does not wait for the stream.
                                assertThat(defined.get().join()).as("live by then").isFalse();
                            }
                            return byValue(known).entries(key, row);
                        });
        sent.ingestedBy(store);
        assertThat(defined.get()).isNotNull();
        assertThat(indexed(store)).hasSize(10);
        assertThat(indexed(store, LATER)).hasSize(10);
    }

    /**
     * Files that are going live were found to have the entries of all indexes before this one. A
     * build that began now would miss their rows.
     */
    @Test
    void aDefinitionWaitsForFilesThatAreGoingLive() throws Exception {
        WriteBarrier arriving = Tables.context(store).indexing().arriving();
        int slot = arriving.begin();
        CompletableFuture<Void> defined =
                CompletableFuture.runAsync(() -> store.indexes().define(LATER));
        try {
            while (!store.indexes().states().containsKey(LATER)) Thread.sleep(1);
            assertThatThrownBy(() -> defined.get(300, TimeUnit.MILLISECONDS))
                    .isInstanceOf(TimeoutException.class);
        } finally {
            arriving.end(slot);
        }
        defined.get(2, TimeUnit.MINUTES);
    }

    /** Their rows may be in the files that are still to come. */
    @Test
    void nothingIsSweptWhileAStreamArrives() {
        store.indexes().define(INDEX);
        write(store, 1);
        Tables.context(store).filesBegin();
        // Nobody is to take it for a sweep that found nothing.
        assertThatThrownBy(() -> store.indexes().sweep(INDEX, (term, key, clustering) -> false))
                .isInstanceOf(CancellationException.class);
        assertThat(indexed(store)).hasSize(1);
        Tables.context(store).filesEnd();
        assertThat(store.indexes().sweep(INDEX, (term, key, clustering) -> false)).isOne();
        assertThat(indexed(store)).isEmpty();
    }

    /** It adds them under the lock that the sweep holds from that look to the removal. */
    @Test
    void aStreamThatComesWhenASweepHasLookedKeepsItsEntries() throws Exception {
        store.indexes().define(INDEX);
        store.indexes().deriveBy(byValue(INDEX));
        SentStream sent = sent(1);
        store.indexes().add(Tables.key(TABLE, 0), List.of(entry(0)));
        AtomicInteger looks = new AtomicInteger();
        AtomicReference<CompletableFuture<Void>> ingested = new AtomicReference<>();
        SweepCheck check =
                (term, key, clustering) -> {
                    boolean isThere = has(store, 0);
                    if (looks.incrementAndGet() == 2) {
                        ingested.set(CompletableFuture.runAsync(() -> ingest(sent)));
                        Tables.await("the stream", () -> Tables.context(store).isArriving());
                    }
                    return isThere;
                };
        assertThat(store.indexes().sweep(INDEX, check)).isOne();
        assertThat(looks).hasValue(2);
        ingested.get().get(2, TimeUnit.MINUTES);
        assertThat(has(store, 0)).isTrue();
        assertThat(indexed(store)).containsExactly(0);
    }

    private void ingest(SentStream sent) {
        try {
            sent.ingestedBy(store);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Sweeps of one index, each of which a stream ends unless it gets to the last entry. */
    private final class Sweeps implements SweepCheck {
        boolean goesOn = true;
        int pages;
        int looked;

        @Override
        public boolean isConfirmed(ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
            return true;
        }

        @Override
        public void looked(boolean isRemoved) {
            looked++;
        }

        @Override
        public boolean goesOn() {
            return goesOn;
        }

        /** On a machine that is busy, also in the middle of a page. */
        @Override
        public void pause() {
            if (looked >= 1_000 * pages) throw new CancellationException();
        }

        /** Returns how many entries it has looked at. */
        int of(UUID index, int most) {
            pages = most;
            looked = 0;
            try {
                assertThat(store.indexes().sweep(index, this)).isZero();
            } catch (CancellationException e) {
                assertThat(looked).isGreaterThanOrEqualTo(1_000 * pages);
            }
            return looked;
        }
    }

    /** A page of entries whose rows take 10 ms each, 10 s, was looked at without a pause. */
    @Test
    void aSweepPausesAmongEntriesThatTakeLong() {
        store.indexes().define(INDEX);
        for (int i = 0; i < 900; i++) write(store, i);
        AtomicLong millis = new AtomicLong();
        RocksIndexes slow =
                new RocksIndexes(
                        Tables.context(store),
                        null,
                        () -> TimeUnit.MILLISECONDS.toNanos(millis.get()));
        List<Integer> pauses = new ArrayList<>();
        Set<DecoratedKey> met = new HashSet<>();
        SweepCheck check =
                new SweepCheck() {
                    @Override
                    public boolean isConfirmed(
                            ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
                        assertThat(met.add(key)).as("it is looked at once").isTrue();
                        millis.addAndGet(10);
                        return true;
                    }

                    @Override
                    public boolean goesOn() {
                        return true;
                    }

                    @Override
                    public void pause() {
                        pauses.add(met.size());
                        if (pauses.size() == 4) throw new CancellationException();
                    }
                };
        assertThatThrownBy(() -> slow.sweep(INDEX, check))
                .isInstanceOf(CancellationException.class);
        assertThat(pauses).containsExactly(0, 50, 100, 150);
        // It goes on behind the last entry.
        assertThat(slow.sweep(INDEX, check)).isZero();
        assertThat(met).hasSize(900);
    }

    /** Where each sweep began at the first entry, the last ones were never looked at. */
    @Test
    void aSweepThatWasEndedGoesOn() {
        store.indexes().define(INDEX);
        store.indexes().define(LATER);
        for (int i = 0; i < 4_500; i++) write(store, i);
        Sweeps sweeps = new Sweeps();
        assertThat(sweeps.of(INDEX, 2)).isEqualTo(2_000);
        assertThat(sweeps.of(LATER, 9)).isZero();
        assertThat(sweeps.of(INDEX, 2)).isEqualTo(2_000);
        assertThat(sweeps.of(INDEX, 9)).isEqualTo(500);
        assertThat(sweeps.of(INDEX, 1)).as("the next").isEqualTo(1_000);
        sweeps.goesOn = false;
        assertThat(sweeps.of(INDEX, 9)).as("all").isEqualTo(4_500);
        sweeps.goesOn = true;
        assertThat(sweeps.of(INDEX, 3)).isEqualTo(3_000);
        store.indexes().drop(INDEX);
        store.indexes().define(INDEX);
        for (int i = 0; i < 1_500; i++) write(store, i);
        assertThat(sweeps.of(INDEX, 1)).as("defined again").isEqualTo(1_000);
        store = reopened();
        assertThat(sweeps.of(INDEX, 9)).as("opened again").isEqualTo(1_500);
    }
}
