// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.StoreDirectory;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;

/**
 * Ranges of a store, written to sst files of their own, which no compaction and no drop of the
 * store takes away before they are sent.
 */
public final class SstExport implements OutgoingParts {
    private final Path directory;
    private final List<FileChannel> files = new ArrayList<>();
    private final List<StreamPart> parts = new ArrayList<>();
    private StreamManifest manifest;

    /**
     * Writes the parts. Rows and large cells are of one moment.
     *
     * @param directory of its own, which is there
     */
    public SstExport(
            StoreContext store, Database database, Path directory, Collection<Range<Token>> ranges)
            throws RocksDBException, IOException {
        this.directory = directory;
        boolean complete = false;
        try (TableOptions.ForSst options = store.reopenable().sstOptions().toSend();
                ReadOptions reading = Database.newReadOptions().setFillCache(false)) {
            List<TokenRanges.KeyRange> keys = TokenRanges.of(ranges, store.partitionKeys());
            List<RocksIterator> both = database.newIterators(reading);
            int dataParts;
            try (RocksIterator rows = both.get(0);
                    RocksIterator large = both.get(1)) {
                write(store, rows, true, options.data(), keys);
                dataParts = parts.size();
                write(store, large, false, options.large(), keys);
            }
            manifest =
                    new StreamManifest(
                            StoreDescriptor.ENGINE,
                            StoreDescriptor.FORMAT,
                            store.table().id,
                            store.spec().columnFamily(),
                            List.copyOf(ranges),
                            // Behind the opening: what rows refer to was known before.
                            ColumnDictionary.of(
                                            dataParts,
                                            store.catalog().flags(),
                                            store.catalog().columns())
                                    .encode(),
                            parts);
            complete = true;
        } finally {
            if (!complete) close();
        }
    }

    private void write(
            StoreContext store,
            RocksIterator it,
            boolean merges,
            Options options,
            List<TokenRanges.KeyRange> ranges)
            throws RocksDBException, IOException {
        StreamSst part = null;
        byte[] first = null;
        byte[] last = null;
        try {
            // A part goes on from one range to the next: repair asks for many small ones.
            for (TokenRanges.KeyRange range : ranges) {
                it.seek(range.from());
                while (it.isValid() && Arrays.compareUnsigned(it.key(), range.to()) < 0) {
                    store.reopenable().checkOpen();
                    if (part == null) {
                        part = new StreamSst(options, file(parts.size()).toString(), merges);
                        first = it.key();
                    }
                    last = part.addAll(it, range.to(), store.settings().streamPart(), null);
                    if (part.bytes() < store.settings().streamPart()) continue;
                    if (merges) last = completePartition(store, part, it, last);
                    finish(part, first, last);
                    part = null;
                }
                it.status();
            }
            if (part != null) finish(part, first, last);
        } finally {
            if (part != null) part.close();
        }
    }

    /**
     * Goes on to the end of the partition: the receiver does not show half of one where a part ends
     * with it. Up to twice the size.
     *
     * @return the last key
     */
    private static byte[] completePartition(
            StoreContext store, StreamSst part, RocksIterator it, byte @Nullable [] last)
            throws RocksDBException {
        byte[] key = Objects.requireNonNull(last);
        int position = store.positionBytes(key);
        byte[] end = Arrays.copyOf(key, position + 1);
        end[position] = (byte) KeyKind.END;
        byte[] more = part.addAll(it, end, 2 * store.settings().streamPart(), null);
        return more == null ? key : more;
    }

    private void finish(StreamSst part, byte @Nullable [] first, byte @Nullable [] last)
            throws RocksDBException, IOException {
        part.finish();
        part.close();
        add(file(parts.size()), Objects.requireNonNull(first), Objects.requireNonNull(last));
    }

    private void add(Path file, byte[] first, byte[] last) throws IOException {
        FileChannel channel = FileChannel.open(file, StandardOpenOption.READ);
        files.add(channel);
        long bytes = channel.size();
        parts.add(
                new StreamPart(
                        parts.size(),
                        bytes,
                        StreamSst.transfer(
                                channel,
                                Channels.newChannel(OutputStream.nullOutputStream()),
                                bytes),
                        ByteBuffer.wrap(first),
                        ByteBuffer.wrap(last)));
    }

    @Override
    public StreamManifest manifest() {
        return manifest;
    }

    @Override
    public Path file(int index) {
        return directory.resolve(index + ".sst");
    }

    @Override
    public long transferTo(int index, WritableByteChannel channel) throws IOException {
        FileChannel file = files.get(Objects.checkIndex(index, files.size()));
        long size = manifest.parts().get(index).bytes();
        for (long at = 0; at < size; ) {
            long moved = file.transferTo(at, size - at, channel);
            if (moved == 0)
                throw new EOFException("Part " + index + " in " + directory + " was cut short.");
            at += moved;
        }
        return size;
    }

    @Override
    public void close() {
        for (FileChannel file : files) {
            try {
                file.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        if (Files.exists(directory)) StoreDirectory.delete(directory);
    }
}
