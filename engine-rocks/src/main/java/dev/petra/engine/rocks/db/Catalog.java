// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.DroppedColumns;
import dev.petra.engine.rocks.format.RowLayout;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.DroppedColumn;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;

/**
 * What a store knows about itself, in a column family of its own: the ids of columns, and whether
 * anything of some kinds was ever written, so that tables without it do not pay for its existence.
 *
 * <p>A column's id is assigned at the first write of a column of that name and never changes: a
 * column dropped and added again has its old id, and its old cells are told by their timestamps, as
 * in Cassandra. An entry is durable before any data refers to it.
 *
 * <p>Nothing is held while an entry is written, which waits as any write does where compaction is
 * behind. Several threads that need the same one may each write it, and each waits for itself.
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
    private static final String PURGE = "purge";
    private static final String WHOLE_PURGE = "whole_purge";

    /** A byte of 1. */
    private static final String YES = "\u0001";

    private static final int MOST_FORMS = 8;

    /**
     * @param withDropped the form of the same version with the columns that it has dropped
     */
    private record Form(TableMetadata version, RowLayout form, RowLayout withDropped) {}

    private final Database database;
    private final WriteStallRetry room;

    /** Those of columns that are durable. Guarded by this, as is the next. */
    private final Map<String, Integer> ids = new HashMap<>();

    /** The entries of columns that are being written, or could not be: the ids behind those. */
    private final Map<String, String> assigning = new HashMap<>();

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
        columns.forEach((name, entry) -> ids.put(name, idOf(entry)));
        int found = 0;
        for (Flag flag : Flag.values())
            if (database.db.get(database.catalog, bytes(flag.key)) != null) found |= flag.bit;
        this.flags = found;
        this.forms = new Form[] {form(table, new RowLayout(table, ids))};
        this.indexes = new IndexCatalog((key, value) -> put(key, value), read(IndexCatalog.KEY));
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

    /** The id of a column, for a client's write; assigned now if it has none. */
    public int id(RowLayout form, ColumnMetadata column) {
        Integer id = form.id(column);
        return id != null ? id : assign(column);
    }

    private int assign(ColumnMetadata column) {
        String name = column.name.toString();
        Integer known = known(name);
        // That of a dropped column is in no form.
        if (known != null) return known;
        assign(List.of(column), true);
        return Objects.requireNonNull(known(name));
    }

    private synchronized @Nullable Integer known(String name) {
        return ids.get(name);
    }

    /** Gives ids to those that have none. */
    private void assign(List<ColumnMetadata> those, boolean isClients) {
        Map<String, String> entries = toAssign(those);
        if (entries.isEmpty()) return;
        put(COLUMN, entries, isClients);
        assigned(entries);
    }

    /**
     * What is to be written at once, so that they have ids: all that others are writing as well.
     * However many of these writes fail, the ids in the catalog have no gaps, and the next one is
     * how many there are.
     *
     * @return nothing if all have one
     */
    private synchronized Map<String, String> toAssign(List<ColumnMetadata> those) {
        boolean lacks = false;
        for (ColumnMetadata column : those) {
            String name = column.name.toString();
            if (ids.containsKey(name)) continue;
            lacks = true;
            int next = ids.size() + assigning.size();
            assigning.putIfAbsent(name, next + " " + column.kind + " " + column.type);
        }
        return lacks ? Map.copyOf(assigning) : Map.of();
    }

    /** These are durable. */
    private synchronized void assigned(Map<String, String> entries) {
        // Others may have written all of them meanwhile.
        if (!assigning.keySet().removeAll(entries.keySet())) return;
        entries.forEach((name, entry) -> ids.put(name, idOf(entry)));
        Map<String, String> more = new HashMap<>(columns);
        more.putAll(entries);
        // First: whoever writes by the forms finds them here.
        columns = Map.copyOf(more);
        renewForms();
    }

    private static int idOf(String entry) {
        return Integer.parseInt(entry.substring(0, entry.indexOf(' ')));
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
    public int[] adopt(List<String> names, TableMetadata table) {
        Map<String, ColumnMetadata> byName = new HashMap<>();
        for (DroppedColumn dropped : table.droppedColumns.values())
            byName.put(dropped.column.name.toString(), dropped.column);
        for (ColumnMetadata column : table.columns()) byName.put(column.name.toString(), column);
        // In their order there: a store without columns gives them the same ids.
        List<ColumnMetadata> those = new ArrayList<>();
        for (String name : names) {
            ColumnMetadata column = byName.get(name);
            if (column != null) those.add(column);
        }
        assign(those, false);
        int[] adopted = new int[names.size()];
        for (int id = 0; id < adopted.length; id++) {
            Integer known = known(names.get(id));
            adopted[id] = known == null ? NO_COLUMN : known;
        }
        return adopted;
    }

    /** What {@link #set} was called for, as bits. */
    public int flags() {
        return flags;
    }

    /** Whether the store may hold such a thing. Never false wrongly. */
    public boolean has(Flag flag) {
        return (flags & flag.bit) != 0;
    }

    /**
     * To be called before the first such things are written.
     *
     * @param wanted as bits
     */
    public void set(int wanted) {
        set(wanted, false);
    }

    /** The same for a client's write. */
    public void setForClient(int wanted) {
        set(wanted, true);
    }

    private void set(int wanted, boolean isClients) {
        int lacking = wanted & ~flags;
        if (lacking == 0) return;
        Map<String, String> entries = new HashMap<>();
        for (Flag flag : Flag.values()) if ((lacking & flag.bit) != 0) entries.put(flag.key, YES);
        put("", entries, isClients);
        synchronized (this) {
            flags |= lacking;
        }
    }

    /** What the last purge left to know; null if there was none. */
    public @Nullable String purge() throws RocksDBException {
        byte[] value = database.db.get(database.catalog, bytes(PURGE));
        return value == null ? null : new String(value, StandardCharsets.UTF_8);
    }

    public void setPurge(String state) {
        put(PURGE, state);
    }

    /** In seconds: when the last purge of all of the table ended; 0 if there was none. */
    public long wholePurge() throws RocksDBException {
        byte[] value = database.db.get(database.catalog, bytes(WHOLE_PURGE));
        return value == null ? 0 : Long.parseLong(new String(value, StandardCharsets.UTF_8));
    }

    public void setWholePurge(long seconds) {
        put(WHOLE_PURGE, Long.toString(seconds));
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

    private void put(String key, String value) {
        put("", Map.of(key, value), false);
    }

    /**
     * Writes all of them or none, synced.
     *
     * @param prefix of their keys
     */
    private void put(String prefix, Map<String, String> entries, boolean isClients) {
        try (WriteBatch batch = new WriteBatch()) {
            for (Map.Entry<String, String> entry : entries.entrySet())
                batch.put(
                        database.catalog, bytes(prefix + entry.getKey()), bytes(entry.getValue()));
            room.writeSynced(
                    () -> database.db.write(database.syncedWriteOptions, batch), isClients);
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
