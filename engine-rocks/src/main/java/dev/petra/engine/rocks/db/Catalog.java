// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.DroppedColumns;
import dev.petra.engine.rocks.format.RowLayout;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * What a store knows about itself, in a column family of its own: the ids of columns, and whether
 * anything of some kinds was ever written, so that tables without it do not pay for its existence.
 *
 * <p>A column's id is assigned at the first write of a column of that name and never changes: a
 * column dropped and added again has its old id, and its old cells are told by their timestamps, as
 * in Cassandra. An entry is durable before any data refers to it.
 */
public final class Catalog {
    /** Something that the store may hold. Set before the first is written, and for good. */
    public enum Flag {
        /** Partitions with a record of their own: a deletion, or range tombstones. */
        PARTITION_RECORDS(1, "partition_records"),

        /** Cells whose values lie apart from their row. */
        LARGE_CELLS(2, "large_cells"),

        /** Anything that can be purged one day: deletions, and what expires. */
        TOMBSTONES(4, "tombstones");

        public final int bit;
        private final String key;

        Flag(int bit, String key) {
            this.bit = bit;
            this.key = key;
        }
    }

    /** In place of a column's id. */
    public static final int NO_COLUMN = -1;

    private static final String COLUMN = "column/";
    private static final String EXTENT = "extent";
    private static final byte[] PURGE = bytes("purge");
    private static final byte[] WHOLE_PURGE = bytes("whole_purge");
    private static final byte[] YES = {1};
    private static final int MOST_FORMS = 8;

    /**
     * @param withDropped the form of the same version with the columns that it has dropped
     */
    private record Form(TableMetadata version, RowLayout form, RowLayout withDropped) {}

    private final Database database;
    private final WriteStallRetry room;
    private final Map<String, Integer> ids = new HashMap<>();

    /**
     * Those of the versions of the table met last, the newest first. Several are in use at a time:
     * a prepared statement brings the version that it was prepared with.
     */
    private volatile Form[] forms;

    private volatile int flags;
    private final IndexCatalog indexes;

    /** Another map when there is another column. */
    private volatile Map<String, String> columns;

    /** Reads the catalog. */
    Catalog(Database database, TableMetadata table, WriteStallRetry room) throws RocksDBException {
        this.database = database;
        this.room = room;
        columns = Map.copyOf(read(COLUMN));
        columns.forEach(
                (name, value) ->
                        ids.put(name, Integer.parseInt(value.substring(0, value.indexOf(' ')))));
        int found = 0;
        for (Flag flag : Flag.values())
            if (database.db.get(database.catalog, bytes(flag.key)) != null) found |= flag.bit;
        this.flags = found;
        this.forms = new Form[] {form(table, new RowLayout(table, ids))};
        this.indexes =
                new IndexCatalog(
                        (key, value) -> put(bytes(key), bytes(value)), read(IndexCatalog.KEY));
    }

    public IndexCatalog indexes() {
        return indexes;
    }

    /** The form of this version of the table: one for all versions with the same columns. */
    public RowLayout layout(TableMetadata table) {
        return form(table).form;
    }

    /** The same, with the columns that this version has dropped. */
    public RowLayout layoutWithDropped(TableMetadata table) {
        return form(table).withDropped;
    }

    private Form form(TableMetadata table) {
        Form known = known(table);
        return known != null ? known : met(table);
    }

    @SuppressWarnings("ReferenceEquality") // the same object if it has dropped none
    private Form form(TableMetadata table, RowLayout form) {
        TableMetadata all = DroppedColumns.addedAgain(table);
        return new Form(table, form, all == table ? form : new RowLayout(all, ids));
    }

    @SuppressWarnings("ReferenceEquality") // a version is an object; comparing contents costs more
    private @Nullable Form known(TableMetadata table) {
        for (Form each : forms) if (each.version == table) return each;
        return null;
    }

    private synchronized Form met(TableMetadata table) {
        Form known = known(table);
        if (known != null) return known;
        RowLayout form = null;
        for (Form each : forms) if (each.form.fits(table)) form = each.form;
        if (form == null) form = new RowLayout(table, ids);
        Form[] more = new Form[Math.min(MOST_FORMS, forms.length + 1)];
        more[0] = form(table, form);
        System.arraycopy(forms, 0, more, 1, more.length - 1);
        forms = more;
        return more[0];
    }

    /** To be called when there are more ids. */
    private void renewForms() {
        IdentityHashMap<RowLayout, RowLayout> renewed = new IdentityHashMap<>();
        Form[] all = forms.clone();
        for (int i = 0; i < all.length; i++)
            all[i] =
                    new Form(
                            all[i].version,
                            renewed.computeIfAbsent(all[i].form, form -> form.with(ids)),
                            renewed.computeIfAbsent(all[i].withDropped, form -> form.with(ids)));
        forms = all;
    }

    /** The id of a column, assigned now if it has none. */
    public int id(RowLayout form, ColumnMetadata column) {
        Integer id = form.id(column);
        return id != null ? id : assign(column);
    }

    private synchronized int assign(ColumnMetadata column) {
        String name = column.name.toString();
        Integer known = ids.get(name);
        // That of a dropped column is in no form.
        if (known != null) return known;
        int id = assign(name, column.kind + " " + column.type);
        renewForms();
        return id;
    }

    private int assign(String name, String kindAndType) {
        int id = ids.size();
        String value = id + " " + kindAndType;
        put(bytes(COLUMN + name), bytes(value));
        ids.put(name, id);
        Map<String, String> more = new HashMap<>(columns);
        more.put(name, value);
        columns = Map.copyOf(more);
        return id;
    }

    /**
     * The columns that have ids, as the catalog has them: id, kind and type by name. What an
     * iterator shows refers to no others, if this is asked for behind its opening.
     */
    public Map<String, String> columns() {
        return columns;
    }

    /** Texts whose keys begin with that, by the rest of the key. */
    private Map<String, String> read(String prefix) throws RocksDBException {
        Map<String, String> found = new HashMap<>();
        try (RocksIterator it = database.db.newIterator(database.catalog)) {
            for (it.seek(bytes(prefix)); it.isValid(); it.next()) {
                String key = new String(it.key(), StandardCharsets.UTF_8);
                if (!key.startsWith(prefix)) break;
                found.put(
                        key.substring(prefix.length()),
                        new String(it.value(), StandardCharsets.UTF_8));
            }
            it.status();
        }
        return found;
    }

    /**
     * The ids that another store's columns have here, by the ids that they have there. Those that
     * have none are given one if the table has them, or had them: an id is for good, and a peer may
     * send any names.
     *
     * @param names of columns, by their ids there
     * @param table as it is now
     * @return {@link #NO_COLUMN} for the others, to which nothing must refer
     */
    public synchronized int[] adopt(List<String> names, TableMetadata table) {
        Map<String, ColumnMetadata> byName = new HashMap<>();
        for (DroppedColumn dropped : table.droppedColumns.values())
            byName.put(dropped.column.name.toString(), dropped.column);
        for (ColumnMetadata column : table.columns()) byName.put(column.name.toString(), column);
        int[] adopted = new int[names.size()];
        try {
            for (int id = 0; id < adopted.length; id++) {
                String name = names.get(id);
                Integer known = ids.get(name);
                ColumnMetadata column = byName.get(name);
                if (known != null) adopted[id] = known;
                else if (column == null) adopted[id] = NO_COLUMN;
                else adopted[id] = assign(name, column.kind + " " + column.type);
            }
            return adopted;
        } finally {
            // Also after a failure, for those that were given one.
            renewForms();
        }
    }

    /** What {@link #set} was called for, as bits. */
    public int flags() {
        return flags;
    }

    /** Whether the store may hold such a thing. Never false wrongly. */
    public boolean has(Flag flag) {
        return (flags & flag.bit) != 0;
    }

    /** To be called before the first such thing is written. */
    public void set(Flag flag) {
        if (has(flag)) return;
        synchronized (this) {
            if (has(flag)) return;
            put(bytes(flag.key), YES);
            flags |= flag.bit;
        }
    }

    /** What the last purge left to know; null if there was none. */
    public @Nullable String purge() throws RocksDBException {
        byte[] value = database.db.get(database.catalog, PURGE);
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    public void setPurge(String state) {
        put(PURGE, bytes(state));
    }

    /** In seconds: when the last purge of all of the table ended; 0 if there was none. */
    public long wholePurge() throws RocksDBException {
        byte[] value = database.db.get(database.catalog, WHOLE_PURGE);
        return value == null ? 0 : Long.parseLong(new String(value, StandardCharsets.UTF_8));
    }

    public void setWholePurge(long seconds) {
        put(WHOLE_PURGE, bytes(Long.toString(seconds)));
    }

    /** What data files hold, by what tells them from all others; also of some that are gone. */
    public Map<String, FileExtent> extents() throws RocksDBException {
        Map<String, FileExtent> extents = new HashMap<>();
        try (RocksIterator it = database.db.newIterator(database.catalog)) {
            for (it.seek(bytes(EXTENT)); it.isValid(); it.next()) {
                String key = new String(it.key(), StandardCharsets.UTF_8);
                if (!key.startsWith(EXTENT + "/")) break;
                extents.put(key.substring(EXTENT.length()), FileExtent.decode(it.value()));
            }
            it.status();
        }
        return extents;
    }

    /**
     * Not synced: what a crash loses is read from the file again.
     *
     * @param file what tells it from all others: in a checkpoint or after a restore the name alone
     *     may be that of another one
     */
    public void setExtent(String file, FileExtent extent) {
        byte[] key = bytes(EXTENT + file);
        byte[] value = extent.encode();
        try {
            room.write(() -> database.db.put(database.catalog, database.writeOptions, key, value));
        } catch (RocksDBException e) {
            throw new CatalogWriteFailure(e);
        }
    }

    public void forgetExtent(String file) throws RocksDBException {
        room.write(
                () ->
                        database.db.delete(
                                database.catalog, database.writeOptions, bytes(EXTENT + file)));
    }

    /** Writes what says nothing; the caller keeps all others from writing. */
    public static void touch(Database database) throws RocksDBException {
        database.db.delete(database.catalog, database.syncedWriteOptions, bytes("none"));
    }

    /** Writes what says nothing: it fails where RocksDB refuses all writes. */
    public void probe() {
        try {
            room.writeSynced(
                    () ->
                            database.db.delete(
                                    database.catalog, database.syncedWriteOptions, bytes("none")));
        } catch (RocksDBException e) {
            throw new CatalogWriteFailure(e);
        }
    }

    private void put(byte[] key, byte[] value) {
        try {
            room.writeSynced(
                    () ->
                            database.db.put(
                                    database.catalog, database.syncedWriteOptions, key, value));
            // RocksDB may not know that the name of its log is not.
            database.log.syncNames();
        } catch (RocksDBException e) {
            throw new CatalogWriteFailure(e);
        }
    }

    /** RocksDB refused an entry; the writer that knows the table says where. */
    public static final class CatalogWriteFailure extends RuntimeException {
        @java.io.Serial private static final long serialVersionUID = 1;

        public final RocksDBException error;

        CatalogWriteFailure(RocksDBException error) {
            super(error);
            this.error = error;
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
