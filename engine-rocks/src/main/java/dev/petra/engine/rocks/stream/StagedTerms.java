// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.IndexCatalog;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.read.ReadContext;
import dev.petra.engine.rocks.write.WritePath;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;

/** Adds the index entries of rows that are staged, before these rows are live. */
final class StagedTerms {
    /** How many entries of a partition with many rows are written at once. */
    private static final int ENTRIES_AT_ONCE = 1_000;

    private final StoreContext store;
    private final WritePath writes;

    StagedTerms(StoreContext store, WritePath writes) {
        this.store = store;
        this.writes = writes;
    }

    /**
     * Does it for files of rows, whose columns have the ids of this store, and whose large cells
     * are live.
     *
     * @param database of which a use was counted
     * @throws IllegalStateException if an index is defined and nobody said how entries are derived
     */
    void add(Database database, List<String> files) throws RocksDBException {
        if (store.catalog().indexes().isEmpty()) return;
        TermFunction terms = store.indexing().terms();
        if (terms == null)
            throw new IllegalStateException(
                    "The store of "
                            + store.name()
                            + " has an index, and deriveBy was not called: the entries of the rows"
                            + " that a stream brings cannot be derived.");
        try (TableOptions.ForSst of = store.reopenable().sstOptions();
                ReadOptions how = Database.newReadOptions().setFillCache(false)) {
            for (String file : files)
                try (SstFileReader reader = new SstFileReader(of.data())) {
                    reader.open(file);
                    try (SstFileReaderIterator it = reader.newIterator(how)) {
                        add(database, it, terms);
                        it.status();
                    }
                }
        }
    }

    private void add(Database database, SstFileReaderIterator rows, TermFunction terms) {
        ReadContext context = new ReadContext(store, ColumnFilter.all(store.table()));
        IndexCatalog indexes = store.catalog().indexes();
        List<TermEntry> entries = new ArrayList<>();
        @Nullable DecoratedKey partition = null;
        for (rows.seekToFirst(); rows.isValid(); rows.next()) {
            byte[] raw = rows.key();
            ByteBuffer in = ByteBuffer.wrap(raw);
            DecoratedKey key = partition(in);
            if (partition != null && (entries.size() >= ENTRIES_AT_ONCE || !key.equals(partition)))
                flush(partition, entries);
            partition = key;
            int kind = in.get(in.position()) & 0xFF;
            if (kind != KeyKind.STATIC && kind != KeyKind.ROW) continue;
            for (TermEntry entry : terms.entries(key, context.row(database, raw, in, rows.value())))
                // For an index that is defined only now, its build finds the row.
                if (indexes.isKnown(entry.index())) entries.add(entry);
        }
        if (partition != null) flush(partition, entries);
    }

    private DecoratedKey partition(ByteBuffer key) {
        try {
            return store.partitionKeys().get(key);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw store.malformed(e, key.rewind());
        }
    }

    private void flush(DecoratedKey partition, List<TermEntry> entries) {
        if (!entries.isEmpty()) writes.add(partition, entries);
        entries.clear();
    }
}
