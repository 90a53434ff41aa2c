// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.MalformedFragment;
import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;

/** Writes staged files anew with the ids that this store has given to the columns. */
final class Renumbering {
    private final StoreContext store;
    private final int[] ids;

    Renumbering(StoreContext store, int[] ids) {
        this.store = store;
        this.ids = ids;
    }

    /** A use of the store by itself, so that whoever ends the store waits for one file only. */
    void rewrite(Path path, boolean isData) throws IOException {
        Path renumbered = path.resolveSibling(path.getFileName() + ".renumbered");
        try (TableOptions.ForSst of = store.reopenable().sstOptions();
                SstFileReader reader = new SstFileReader(isData ? of.data() : of.large());
                ReadOptions how = Database.newReadOptions().setFillCache(false)) {
            reader.open(path.toString());
            try (SstFileReaderIterator it = reader.newIterator(how);
                    StreamSst file =
                            new StreamSst(
                                    isData ? of.data() : of.large(),
                                    renumbered.toString(),
                                    isData)) {
                it.seekToFirst();
                if (isData) file.addRows(it, ids);
                else largeCells(it, file);
                it.status();
                file.finish();
            }
        } catch (RocksDBException | MalformedFragment e) {
            throw new IOException("%s of %s: %s".formatted(path, store.name(), e.getMessage()), e);
        }
        Files.move(renumbered, path, StandardCopyOption.ATOMIC_MOVE);
    }

    /** Row by row: the cells of a row are in the order of their columns' ids. */
    private void largeCells(SstFileReaderIterator it, StreamSst file)
            throws RocksDBException, IOException {
        while (it.isValid()) {
            List<LargeKey> row = new ArrayList<>();
            @Nullable LargeKey key = renumbered(it.key());
            while (key != null && key.isOf(row)) {
                row.add(key);
                it.next();
                key = it.isValid() ? renumbered(it.key()) : null;
            }
            row.sort((a, b) -> Arrays.compareUnsigned(a.here, b.here));
            for (LargeKey cell : row) {
                it.seek(cell.there);
                file.add(cell.here, it.value());
            }
            if (key == null) return;
            it.seek(key.there);
        }
    }

    /** A large cell's key as it was sent, as it is here, and how long its row's key is. */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    private record LargeKey(byte[] there, byte[] here, int rowBytes) {
        boolean isOf(List<LargeKey> row) {
            if (row.isEmpty()) return true;
            LargeKey first = row.get(0);
            return rowBytes == first.rowBytes
                    && Arrays.equals(there, 0, rowBytes, first.there, 0, rowBytes);
        }
    }

    private LargeKey renumbered(byte[] key) throws IOException {
        try {
            int row = store.rowBytes(ByteBuffer.wrap(key));
            byte[] here = key.clone();
            ByteBuffer cell = ByteBuffer.wrap(here, row, here.length - row);
            int id = ids[cell.getInt(row)];
            if (id == Catalog.NO_COLUMN) throw new IllegalArgumentException("an unknown column");
            cell.putInt(row, id);
            return new LargeKey(key, here, row);
        } catch (IllegalArgumentException
                | IndexOutOfBoundsException
                | BufferUnderflowException e) {
            throw new IOException(
                    "%s: malformed key %s"
                            .formatted(
                                    store.name(), ByteBufferUtil.bytesToHex(ByteBuffer.wrap(key))),
                    e);
        }
    }
}
