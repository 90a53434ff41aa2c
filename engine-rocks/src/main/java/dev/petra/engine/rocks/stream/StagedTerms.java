// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.DroppedColumns;
import dev.petra.engine.WriteStallException;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.IndexCatalog;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.read.ReadContext;
import dev.petra.engine.rocks.write.WritePath;
import java.io.UncheckedIOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;

/**
 * Adds the index entries of rows that are staged, before these rows are live. What was added is
 * kept: after an exception it goes on from there. One thread at a time.
 */
final class StagedTerms {
    /** How many entries of a partition with many rows are written at once. */
    private static final int ENTRIES_AT_ONCE = 1_000;

    /** How many rows are read between two looks whether the stream is closed. */
    private static final int CHECKED = 256;

    private final StoreContext store;
    private final WritePath writes;
    private final Runnable checkOpen;

    /** The files whose rows get entries. */
    private List<Path> files = List.of();

    /** The numbers of indexes that have the entries of all rows of these files. */
    private final Set<Integer> complete = new HashSet<>();

    /** The indexes, and their numbers, whose entries are being added. */
    private Map<UUID, Integer> wanted = Map.of();

    /** How many files are done for them. */
    private int done;

    /** Where it goes on in the next one; null for its begin. */
    private byte @Nullable [] next;

    /**
     * @param checkOpen throws if the stream or the store is closed
     */
    StagedTerms(StoreContext store, WritePath writes, Runnable checkOpen) {
        this.store = store;
        this.writes = writes;
        this.checkOpen = checkOpen;
    }

    /**
     * Whether every defined index has the entries of the rows of these files. To be asked while no
     * index is being defined.
     */
    boolean areAdded(List<Path> of) {
        Collection<Integer> defined = store.catalog().indexes().numbers().values();
        return defined.isEmpty() || (of.equals(files) && complete.containsAll(defined));
    }

    /**
     * Adds what lacks, for files of rows whose columns have the ids of this store, and whose large
     * cells are live. Blocks on disk.
     *
     * @throws IllegalStateException if an index is defined and nobody said how entries are derived,
     *     or the stream or the store is closed
     * @throws WriteStallException if the store takes no entries now
     * @throws UncheckedIOException if a file is damaged
     */
    void add(List<Path> of) {
        if (!of.equals(files)) {
            files = List.copyOf(of);
            complete.clear();
            begin(Map.of());
        }
        while (!areAdded(of)) {
            if (wanted.isEmpty()) {
                Map<UUID, Integer> lacking = store.catalog().indexes().numbers();
                lacking.values().removeAll(complete);
                // They were dropped meanwhile.
                if (lacking.isEmpty()) return;
                begin(lacking);
            }
            while (done < files.size()) {
                Path file = files.get(done);
                store.reopenable()
                        .maintain(
                                database -> {
                                    add(database, file);
                                });
                done++;
                next = null;
            }
            complete.addAll(wanted.values());
            begin(Map.of());
        }
    }

    private void begin(Map<UUID, Integer> indexes) {
        wanted = indexes;
        done = 0;
        next = null;
    }

    private void add(Database database, Path file) throws RocksDBException {
        TermFunction terms = store.indexing().terms();
        if (terms == null)
            throw new IllegalStateException(
                    "The store of "
                            + store.name()
                            + " has an index, and deriveBy was not called: the entries of the rows"
                            + " that a stream brings cannot be derived.");
        try (TableOptions.ForSst of = store.reopenable().sstOptions();
                ReadOptions how = Database.newReadOptions().setFillCache(false);
                SstFileReader reader = new SstFileReader(of.data())) {
            reader.open(file.toString());
            try (SstFileReaderIterator it = reader.newIterator(how)) {
                byte[] from = next;
                if (from == null) it.seekToFirst();
                else it.seek(from);
                add(database, it, terms);
                it.status();
            }
        } catch (RocksDBException e) {
            // Of the file alone: what is read and written of the store has errors of its own.
            throw Ingester.unreadable(file, store.name(), e);
        }
    }

    private void add(Database database, SstFileReaderIterator rows, TermFunction terms) {
        ReadContext context =
                new ReadContext(store, terms.columns(DroppedColumns.addedAgain(store.table())));
        IndexCatalog indexes = store.catalog().indexes();
        List<TermEntry> entries = new ArrayList<>();
        @Nullable DecoratedKey partition = null;
        for (int read = 0; rows.isValid(); read++, rows.next()) {
            if (read % CHECKED == 0) checkOpen.run();
            byte[] raw = rows.key();
            ByteBuffer in = ByteBuffer.wrap(raw);
            DecoratedKey key = partition(in);
            if (partition != null
                    && (entries.size() >= ENTRIES_AT_ONCE || !key.equals(partition))) {
                flush(partition, entries);
                next = raw;
            }
            partition = key;
            int kind = in.get(in.position()) & 0xFF;
            if (kind != KeyKind.STATIC && kind != KeyKind.ROW) continue;
            for (TermEntry entry : terms.entries(key, context.row(database, raw, in, rows.value())))
                // For an index that is defined only now, these rows are read again.
                if (wanted.containsKey(entry.index()) && indexes.isKnown(entry.index()))
                    entries.add(entry);
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
