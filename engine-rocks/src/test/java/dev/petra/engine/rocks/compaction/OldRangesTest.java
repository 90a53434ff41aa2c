// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.ByteSink;
import dev.petra.engine.rocks.format.Keys;
import dev.petra.engine.rocks.nativelib.Reconciler;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.rocks.read.ReadContext;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.LiveFileMetaData;
import org.rocksdb.RocksDBException;

/** Range tombstones past their grace go, and files that have none of them stay as they are. */
class OldRangesTest extends PurgeFixture {
    private static final long LONG_AGO = UpdateBuilder.LONG_AGO;
    private static final String LEVELED = "LeveledCompactionStrategy";
    private static final String UNIVERSAL = "UnifiedCompactionStrategy";

    private void open(String strategy) {
        table =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, v text, s text static, PRIMARY KEY (k, c))"
                                + " WITH gc_grace_seconds = 3600 AND compression = {'enabled':"
                                + " 'false'} AND compaction = {'class': '"
                                + strategy
                                + "'}");
        open();
    }

    private void fill(String key, int rows) {
        for (int row = 0; row < rows; row++)
            store.write(table.update(key).at(1).row(row).set("v", noise(row)).build());
    }

    private void delete(String key, int from, int to, long timestamp, long localTime) {
        store.write(
                table.update(key)
                        .at(timestamp)
                        .now(localTime)
                        .deleteRange(table.from(from), table.to(to))
                        .build());
    }

    private byte[] position(String key) {
        ByteSink position = new ByteSink();
        Tables.context(store).partitionKeys().put(position, table.key(key));
        return position.copy(0, position.position());
    }

    private int ranges(String key) {
        byte[] prefix = OldRanges.prefix(position(key));
        ByteBuffer direct = ByteBuffer.allocateDirect(prefix.length).put(prefix).flip();
        int count = 0;
        try (Cursor cursor = new ReadContext(Tables.context(store), table.all()).open()) {
            for (cursor.seek(direct.duplicate());
                    cursor.isValid() && Keys.startsWith(cursor.key(), direct);
                    cursor.next()) count++;
        }
        return count;
    }

    /** What a query of a partition would return. */
    private Map<Integer, String> live(String key) {
        Map<Integer, String> live = new TreeMap<>();
        try (UnfilteredRowIterator rows =
                store.read(table.key(key), Slices.ALL, table.all(), false)) {
            while (rows != null && rows.hasNext()) {
                Unfiltered next = rows.next();
                if (next instanceof Row row && row.hasLiveData(0, false))
                    live.put(
                            ByteBufferUtil.toInt(row.clustering().bufferAt(0)),
                            row.getCell(table.column("v")).buffer().toString()
                                    + row.getCell(table.column("v")).timestamp());
            }
        }
        return live;
    }

    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void theyGoAndTheOtherFilesStay(String strategy) throws RocksDBException {
        open(strategy);
        for (int i = 0; i < 150; i++) fill("k" + i, 100);
        settle();
        delete("k1", 0, 49, 2, LONG_AGO);
        delete("k2", 20, 30, 2, LONG_AGO);
        delete("k2", 25, 60, 3, LONG_AGO);
        delete("k3", 5, 9, 2, UpdateBuilder.NOW);
        delete("k4", 5, 9, 2, LONG_AGO);
        // Newer than what hides the rest.
        store.write(table.update("k1").at(5).row(7).set("v", "newer").build());
        store.write(table.update("k4").at(1).staticRow().set("s", "static").build());
        settle();
        Map<String, Map<Integer, String>> read = new HashMap<>();
        for (int i = 0; i < 150; i++) read.put("k" + i, live("k" + i));
        assertThat(read.get("k1")).hasSize(51).containsKey(7);
        assertThat(read.get("k2")).hasSize(59);
        Map<String, Long> files = files();
        assertThat(files).hasSizeGreaterThan(50);

        purge();
        assertThat(round.wantsWhole()).isFalse();
        for (String key : new String[] {"k1", "k2", "k4"}) assertThat(ranges(key)).isZero();
        assertThat(ranges("k3")).isOne();
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
        Map<String, Long> gone = new HashMap<>(files);
        gone.keySet().removeAll(files().keySet());
        assertThat(sum(gone)).isLessThan(sum(files) / 10);

        // What was hidden goes as what deletions of rows hide.
        int before = entries();
        mayPurge.set(true);
        permission.clock(database());
        store.compact(List.of());
        store.compact(List.of());
        assertThat(entries()).isLessThan(before - 80);
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
        store.close();
        open();
        read.forEach((key, rows) -> assertThat(live(key)).as(key).isEqualTo(rows));
    }

    /** In one purge, where they hide much of a file. */
    @ParameterizedTest
    @ValueSource(strings = {LEVELED, UNIVERSAL})
    void whatTheyHideGoesWithThem(String strategy) throws RocksDBException {
        open(strategy);
        fill("large", 2000);
        settle();
        delete("large", 100, 1899, 2, LONG_AGO);
        settle();
        long bytes = sum(files());
        purge();
        assertThat(ranges("large")).isZero();
        assertThat(live("large")).hasSize(200);
        assertThat(sum(files())).isLessThan(bytes / 2);
        // What was merged leaves empty rows, which the filter meets the next time.
        purge();
        assertThat(entries()).isBetween(200, 400);
        assertThat(live("large")).hasSize(200);
    }

    /** More than are kept in memory, one over the other. */
    @Test
    void manyOfAPartitionGo() throws RocksDBException {
        open(LEVELED);
        fill("q", 300);
        for (int i = 0; i < 9000; i++) delete("q", i % 250, i % 250 + i % 7, 2 + i, LONG_AGO + i);
        int before = ranges("q");
        assertThat(before).isGreaterThan(1000);
        for (int i = 0; i < 5000; i++) delete("q", 1000 + i, 1000 + i, 2, LONG_AGO);
        settle();
        Map<Integer, String> read = live("q");
        purge();
        assertThat(ranges("q")).isZero();
        assertThat(live("q")).isEqualTo(read);
    }

    private OldRanges.Run begin() {
        mayPurge.set(true);
        permission.clock(database());
        StoreContext context = Tables.context(store);
        Reconciler reconciler = context.reconciler();
        int mark = 1 - reconciler.activeMaxPurgeable();
        reconciler.maxPurgeable(mark, Long.MAX_VALUE);
        context.room().writers.awaitThoseBegun();
        return new OldRanges(context, permission, held)
        .new Run(database(), permission.gcBefore(), mark, permission.restrictions());
    }

    private OldRanges.Chunk handDown(OldRanges.Run run, String key) throws RocksDBException {
        return run.handDown(position(key), OldRanges.prefix(position(key)));
    }

    /** Too late to be handed down to, and hidden all the same. */
    @Test
    void whatIsWrittenMeanwhileKeepsWhatHidesIt() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        delete("k", 6, 7, 1, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        assertThat(chunk.old()).hasSize(2);
        store.write(table.update("k").at(4).row(3).set("v", "late").build());
        run.remove(chunk.old());
        // The older one hides nothing that is written from here on.
        assertThat(run.removed()).isOne();
        assertThat(ranges("k")).isOne();
        assertThat(live("k").keySet()).containsExactly(5, 8, 9);
        // Not even now: such a write may come again.
        run.remove(chunk.old());
        assertThat(ranges("k")).isOne();
        purge();
        assertThat(ranges("k")).isZero();
        assertThat(live("k").keySet()).containsExactly(5, 8, 9);
    }

    @Test
    void oneThatIsWrittenAgainMeanwhileStays() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        delete("k", 0, 4, 9, UpdateBuilder.NOW);
        run.remove(chunk.old());
        assertThat(ranges("k")).isOne();
        store.write(table.update("k").at(8).row(3).set("v", "hidden").build());
        assertThat(live("k")).hasSize(5);
    }

    @Test
    void noneGoesOnceTheHostForbidsIt() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        OldRanges.Run run = begin();
        OldRanges.Chunk chunk = handDown(run, "k");
        mayPurge.set(false);
        permission.clock(database());
        run.remove(chunk.old());
        assertThat(run.removed()).isZero();
        assertThat(ranges("k")).isOne();
        assertThat(live("k")).hasSize(5);
    }

    /** A file is looked through again only when there is something old in it that was young. */
    @Test
    void aFileIsLookedThroughOnce() throws RocksDBException {
        open(LEVELED);
        fill("k", 10);
        delete("k", 0, 4, 5, LONG_AGO);
        delete("k", 5, 6, 5, UpdateBuilder.NOW);
        store.flush();
        LiveFileMetaData file = database().dataFiles().get(0);
        int[] partitions = new int[1];
        long next =
                held.eachOldRange(
                        database(),
                        file.fileName(),
                        LONG_AGO + 1,
                        () -> false,
                        position -> partitions[0]++);
        assertThat(next).isEqualTo(UpdateBuilder.NOW);
        assertThat(partitions[0]).isOne();
        assertThat(
                        held.eachOldRange(
                                database(),
                                "/999999.sst",
                                LONG_AGO + 1,
                                () -> false,
                                position -> {
                                    throw new AssertionError("there is no such file");
                                }))
                .isEqualTo(Long.MIN_VALUE);
    }
}
