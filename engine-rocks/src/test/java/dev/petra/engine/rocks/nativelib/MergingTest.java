// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.context.CounterContext;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.utils.CounterId;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/** What the merge operator does for a store: rows stay small, and bad bytes harm only their key. */
class MergingTest {
    private static final HexFormat HEX = HexFormat.of();

    @TempDir Path directory;
    private final TestTable table =
            TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
    private StorageEngine engine;
    private TableStore store;

    @BeforeEach
    void open() {
        engine = Tables.engine();
        store = Tables.open(engine, directory.resolve("1"), table.metadata());
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private void write(String key, int c, long timestamp, String value) {
        store.write(table.update(key).at(timestamp).row(c).liveness().set("v", value).build());
    }

    private String read(String key) {
        return Tables.text(store.read(table.key(key), Slices.ALL, table.all(), false));
    }

    private byte[] storedKey() {
        return Tables.firstKey(store);
    }

    private int storedSize() {
        try (RocksIterator it =
                Tables.context(store)
                        .database()
                        .db
                        .newIterator(Tables.context(store).database().data)) {
            it.seekToFirst();
            return it.value().length;
        }
    }

    @Test
    void aRowWrittenManyTimesIsAsLargeAsOneWrittenOnce() throws RocksDBException {
        write("k", 1, 1, "value 0000000");
        int once = storedSize();
        Database database = Tables.context(store).database();
        long most = 0;
        for (int i = 1; i <= 20_000; i++) {
            write("k", 1, i, "value %07d".formatted(i));
            if (i % 777 != 0) continue;
            // Of what a read meets in the write buffer.
            database.db.getPerfContext().reset();
            read("k");
            most = Math.max(most, database.db.getPerfContext().getInternalMergeCount());
        }
        assertThat(most).isLessThanOrEqualTo(64);
        assertThat(store.statistics().memoryBytes()).isLessThan(8 << 20);
        store.flush();
        assertThat(storedSize()).isEqualTo(once);
        assertThat(read("k")).contains("value 0020000");
        assertThat(Tables.context(store).reconciler().merges()).isPositive();
    }

    @Test
    void malformedBytesAreReportedWithTableAndKeyAndHarmNoOther() throws RocksDBException {
        write("bad", 1, 1, "x");
        byte[] key = storedKey();
        write("good", 1, 1, "y");
        Database database = Tables.context(store).database();
        database.db.merge(database.data, key, HEX.parseHex("04ff"));
        for (int i = 0; i < 3; i++) {
            assertThatThrownBy(() -> read("bad"))
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining("ks.t")
                    .hasMessageContaining(HEX.formatHex(key));
            assertThat(read("good")).contains("v=y");
            // Writes go on, and so does compaction; nothing is made of the bytes.
            write("bad", 1, 2 + i, "z");
            store.flush();
            store.compact(List.of());
        }
        assertThat(Tables.context(store).reconciler().malformed()).isPositive();
        assertThat(Tables.context(store).reconciler().takeMalformed()).isEqualTo(key);
        store.verify();
    }

    @Test
    void aTruncatedValueIsReportedToo() throws RocksDBException {
        write("bad", 1, 1, "x");
        byte[] key = storedKey();
        Database database = Tables.context(store).database();
        byte[] value = database.db.get(database.data, key);
        database.db.put(database.data, key, java.util.Arrays.copyOf(value, value.length - 1));
        store.flush();
        store.compact(List.of());
        assertThatThrownBy(() -> read("bad")).isInstanceOf(CorruptStoreException.class);
        assertThat(Tables.context(store).reconciler().takeMalformed()).isEqualTo(key);
        assertThat(Tables.context(store).reconciler().takeMalformed()).isNull();
    }

    /** Each thread that merged a large row once kept up to 10 MiB for good. */
    @Test
    void aThreadThatHasMergedALargeRowKeepsLittle() {
        TestTable maps = TestTable.of("CREATE TABLE t (k text, m map<int, text>, PRIMARY KEY (k))");
        TableStore large = Tables.open(engine, directory.resolve("2"), maps.metadata());
        for (int time = 1; time <= 2; time++) {
            UpdateBuilder.RowBuilder row = maps.update("k").at(time).row();
            for (int i = 0; i < 20_000; i++) row.put("m", i, "value");
            large.write(row.build());
        }
        long merges = Tables.context(large).reconciler().merges();
        assertThat(Tables.text(large.read(maps.key("k"), Slices.ALL, maps.all(), false)))
                .contains("value");
        assertThat(Tables.context(large).reconciler().merges()).isGreaterThan(merges);
        assertThat(Reconciler.scratchBytes()).isLessThan(512 << 10);
    }

    /** UPDATE failed, and what INSERT wrote was malformed to the native part. */
    @Test
    void aCollectionCanBeSetToNullAtTheLowestTimestamp() {
        TestTable maps =
                TestTable.of(
                        "CREATE TABLE t (k text, c int, s set<int> static, m map<int, text>,"
                                + " PRIMARY KEY (k, c))");
        TableStore nulls = Tables.open(engine, directory.resolve("2"), maps.metadata());
        long lowest = Long.MIN_VALUE + 1;
        nulls.write(maps.update("k").at(lowest).row(1).clearBefore("m").build());
        nulls.write(maps.update("k").at(lowest).staticRow().clearBefore("s").build());
        assertThat(nulls.read(maps.key("k"), Slices.ALL, maps.all(), false)).isNull();
        nulls.write(maps.update("k").at(lowest).row(1).liveness().clearBefore("m").build());
        nulls.write(maps.update("k").at(1).row(1).put("m", 1, "later").build());
        for (int i = 0; i < 2; i++) {
            assertThat(Tables.text(nulls.read(maps.key("k"), Slices.ALL, maps.all(), false)))
                    .contains("later");
            nulls.flush();
        }
        assertThat(Tables.context(nulls).reconciler().malformed()).isZero();
    }

    @Test
    void countersMergeByShardAndThoseWithLocalShardsOnlyWhenRead() {
        TestTable counters =
                TestTable.of("CREATE TABLE t (k text, c int, n counter, PRIMARY KEY (k, c))");
        TableStore counting = Tables.open(engine, directory.resolve("2"), counters.metadata());
        for (int i = 1; i <= 100; i++) {
            CounterContext.ContextState state = CounterContext.ContextState.allocate(1, 0, 0);
            state.writeGlobal(CounterId.fromInt(1 + i % 2), i, 10L * i);
            counting.write(counters.update("global").at(i).row(1).set("n", state.context).build());
            CounterContext.ContextState local = CounterContext.ContextState.allocate(0, 1, 0);
            local.writeLocal(CounterId.fromInt(1), 1, 1);
            counting.write(counters.update("local").at(i).row(1).set("n", local.context).build());
            if (i % 30 == 0) counting.flush();
        }
        for (int i = 0; i < 2; i++) {
            assertThat(total(counting, counters, "global")).isEqualTo(1000 + 990);
            // Local shards add up: a merge that happened twice would count twice.
            assertThat(total(counting, counters, "local")).isEqualTo(100);
            counting.flush();
            counting.compact(List.of());
        }
    }

    private static long total(TableStore store, TestTable table, String key) {
        try (UnfilteredRowIterator rows =
                store.read(table.key(key), Slices.ALL, table.all(), false)) {
            Row row = (Row) rows.next();
            return CounterContext.instance().total(row.getCell(table.column("n")));
        }
    }
}
