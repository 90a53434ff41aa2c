// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.rocksdb.Options;
import org.rocksdb.SstFileReader;

/** A store with an index, and what is in both. */
abstract class IndexFixture {
    static final TableMetadata TABLE = Tables.table("CREATE TABLE t (k int PRIMARY KEY, v text)");
    static final UUID INDEX = new UUID(0x1111L, 1);
    static final UUID LATER = new UUID(0x2222L, 2);

    @TempDir Path directory;
    StorageEngine engine;
    TableStore store;

    @BeforeEach
    void open() {
        engine = Tables.engine();
        engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
        store = Tables.open(engine, directory.resolve("1"), TABLE);
    }

    @AfterEach
    void close() {
        engine.close();
    }

    static TermEntry entry(int row) {
        return new TermEntry(INDEX, ByteBufferUtil.bytes("v" + row), Clustering.EMPTY);
    }

    static void write(TableStore to, int row) {
        var update = Tables.update(TABLE, row);
        update.row().add("v", "v" + row);
        to.write(update.build(), List.of(entry(row)));
    }

    static List<Integer> indexed(TableStore in) {
        return indexed(in, INDEX);
    }

    static List<Integer> indexed(TableStore in, UUID index) {
        List<Integer> rows = new ArrayList<>();
        try (TermCursor cursor = in.indexes().scan(index, null, true, null, true)) {
            while (cursor.next()) rows.add(ByteBufferUtil.toInt(cursor.key().getKey()));
        }
        rows.sort(null);
        return rows;
    }

    static boolean has(TableStore in, int row) {
        try (UnfilteredRowIterator rows =
                in.read(Tables.key(TABLE, row), Slices.ALL, ColumnFilter.all(TABLE), false)) {
            return rows != null && rows.hasNext();
        }
    }

    TableStore reopened() {
        store.close();
        return Tables.open(engine, directory.resolve("1"), TABLE);
    }

    static String familyOf(Path file) throws Exception {
        try (Options options = new Options();
                SstFileReader reader = new SstFileReader(options)) {
            reader.open(file.toString());
            return new String(
                    reader.getTableProperties().getColumnFamilyName(), StandardCharsets.UTF_8);
        }
    }
}
