// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * What a store knows about itself, in a column family of its own: the ids of columns, and whether
 * any partition has a record of its own (a deletion or range tombstones), so that tables without
 * them do not look for them.
 *
 * <p>A column's id is assigned at the first write of a column of that name and never changes: a
 * column dropped and added again has its old id, and its old cells are told by their timestamps, as
 * in Cassandra. An entry is durable before any data refers to it.
 */
final class Catalog {
    private static final String COLUMN = "column/";
    private static final byte[] PARTITION_RECORDS = bytes("partition_records");
    private static final byte[] YES = {1};

    private final Database database;
    private final Map<String, Integer> ids = new HashMap<>();
    private volatile TableForm form;
    private volatile boolean hasPartitionRecords;

    /** Reads the catalog. */
    Catalog(Database database, TableMetadata table) throws RocksDBException {
        this.database = database;
        try (RocksIterator it = database.db.newIterator(database.catalog)) {
            for (it.seekToFirst(); it.isValid(); it.next()) {
                String key = new String(it.key(), StandardCharsets.UTF_8);
                if (key.startsWith(COLUMN)) {
                    String value = new String(it.value(), StandardCharsets.UTF_8);
                    int space = value.indexOf(' ');
                    ids.put(
                            key.substring(COLUMN.length()),
                            Integer.parseInt(value.substring(0, space)));
                }
            }
            it.status();
        }
        this.hasPartitionRecords = database.db.get(database.catalog, PARTITION_RECORDS) != null;
        this.form = new TableForm(table, ids);
    }

    /** The form of this version of the table. */
    TableForm form(TableMetadata table) {
        TableForm current = form;
        return current.isOf(table) ? current : refresh(table);
    }

    private synchronized TableForm refresh(TableMetadata table) {
        if (!form.isOf(table)) form = new TableForm(table, ids);
        return form;
    }

    /** The id of a column, assigned now if it has none. */
    int id(TableForm form, ColumnMetadata column) {
        Integer id = form.id(column);
        return id != null ? id : assign(column);
    }

    private synchronized int assign(ColumnMetadata column) {
        String name = column.name.toString();
        Integer known = ids.get(name);
        if (known == null) {
            int id = ids.size();
            String value = id + " " + column.kind + " " + column.type;
            put(bytes(COLUMN + name), bytes(value));
            ids.put(name, id);
            known = id;
        }
        form = form.with(ids);
        return known;
    }

    /** Whether any partition may have a record of its own. Never false wrongly. */
    boolean hasPartitionRecords() {
        return hasPartitionRecords;
    }

    /** To be called before the first such record is written. */
    void setHasPartitionRecords() {
        if (hasPartitionRecords) return;
        synchronized (this) {
            if (hasPartitionRecords) return;
            put(PARTITION_RECORDS, YES);
            hasPartitionRecords = true;
        }
    }

    private void put(byte[] key, byte[] value) {
        try (var options = new org.rocksdb.WriteOptions().setSync(true)) {
            database.db.put(database.catalog, options, key, value);
        } catch (RocksDBException e) {
            throw new CatalogWriteFailure(e);
        }
    }

    /** RocksDB refused an entry; the writer that knows the table says where. */
    static final class CatalogWriteFailure extends RuntimeException {
        @java.io.Serial private static final long serialVersionUID = 1;

        final RocksDBException error;

        CatalogWriteFailure(RocksDBException error) {
            super(error);
            this.error = error;
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
