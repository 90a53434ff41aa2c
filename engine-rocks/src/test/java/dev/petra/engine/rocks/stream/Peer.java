// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.format.PartitionKeys;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.utils.Hex;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksIterator;

/** Another node's store: entries that a peer may send, and change. */
final class Peer {
    /** An entry as it lies in a block. */
    @SuppressWarnings("ArrayRecordComponent") // compared nowhere
    record Entry(byte[] key, byte[] value) {
        int kind() {
            ByteBuffer in = ByteBuffer.wrap(key);
            new PartitionKeys(Murmur3Partitioner.instance).get(in);
            return in.get() & 0xFF;
        }
    }

    private final TestTable table;
    private final TableStore store;

    Peer(StorageEngine engine, TestTable table, Path directory) {
        this.table = table;
        this.store = engine.openStore(table.spec(directory.resolve("store")));
    }

    /** With a column of each kind. */
    static TestTable table(String options) {
        return TestTable.of(
                "CREATE TABLE t (k int, c int, s text static, v text, w text, n int,"
                        + " m map<int, text>, PRIMARY KEY (k, c))"
                        + (options.isEmpty()
                                ? " WITH compression = {'enabled': 'false'}"
                                : options));
    }

    TableStore store() {
        return store;
    }

    /** Partitions with rows, and here and there all else that there is. */
    void fill(int partitions) {
        for (int k = 0; k < partitions; k++) {
            store.write(
                    table.update(k)
                            .at(2)
                            .row(k)
                            .set("v", "some text ".repeat(k % 30 + 1))
                            .set("n", k)
                            .put("m", k, "element")
                            .build());
            if (k % 3 == 0)
                store.write(table.update(k).at(3).staticRow().set("s", "static").build());
            if (k % 4 == 0)
                store.write(
                        table.update(k).at(1).deleteRange(table.from(50), table.to(60)).build());
            if (k % 5 == 0) store.write(table.update(k).at(1).deletePartition().build());
            if (k % 7 == 0)
                store.write(table.update(k).at(4).row(k).set("w", "large ".repeat(300)).build());
            if (k % 6 == 0) store.write(table.update(k).at(5).deleteRow(k + 100).build());
        }
    }

    List<Entry> rows() {
        return entries(Tables.context(store).acquire(), true);
    }

    List<Entry> large() {
        return entries(Tables.context(store).acquire(), false);
    }

    private static List<Entry> entries(Database database, boolean data) {
        int use = Database.stripe();
        ColumnFamilyHandle family = data ? database.data : database.large;
        List<Entry> entries = new ArrayList<>();
        try (RocksIterator it = database.db.newIterator(family)) {
            for (it.seekToFirst(); it.isValid(); it.next())
                entries.add(new Entry(it.key(), it.value()));
        } finally {
            database.release(use);
        }
        return entries;
    }

    Entry first(int kind) {
        Predicate<Entry> is = entry -> entry.kind() == kind;
        return rows().stream().filter(is).findFirst().orElseThrow();
    }

    /** Of a column, here. */
    int id(String column) throws org.rocksdb.RocksDBException {
        SliceColumns all = SliceColumns.of(Tables.context(store).catalog().columns());
        return all.names().indexOf(column);
    }

    /** Of each partition what a read would compare, whatever bytes its values are. */
    static List<String> content(TableStore store, TestTable table) {
        List<String> partitions = new ArrayList<>();
        try (UnfilteredPartitionIterator all =
                store.scan(DataRange.allData(table.metadata().partitioner), table.all())) {
            while (all.hasNext())
                try (UnfilteredRowIterator partition = all.next()) {
                    Digest digest = Digest.forReadResponse();
                    String key = partition.partitionKey().toString();
                    UnfilteredRowIterators.digest(
                            partition, digest, MessagingService.current_version);
                    partitions.add(key + " " + Hex.bytesToHex(digest.digest()));
                }
        }
        return partitions;
    }

    /** Where these bytes are. */
    static int indexOf(byte[] in, byte[] what) {
        for (int at = 0; at <= in.length - what.length; at++)
            if (Arrays.equals(in, at, at + what.length, what, 0, what.length)) return at;
        throw new IllegalStateException("not there");
    }
}
