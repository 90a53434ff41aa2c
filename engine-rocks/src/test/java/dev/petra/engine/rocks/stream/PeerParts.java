// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.format.PartitionKeys;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.zip.CRC32C;
import net.jpountz.xxhash.XXHashFactory;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.utils.Hex;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksIterator;

/** A peer that can lie: parts of what entries it likes, in files of what bytes it likes. */
final class PeerParts {
    static final List<Range<Token>> ALL =
            List.of(new Range<>(TestTable.token(Long.MIN_VALUE), TestTable.token(Long.MIN_VALUE)));

    private static final int FOOTER = 53;
    private static final int TRAILER = 5;

    /** An entry as it lies in a file. */
    @SuppressWarnings("ArrayRecordComponent") // compared nowhere
    record Entry(byte[] key, byte[] value) {
        int kind() {
            ByteBuffer in = ByteBuffer.wrap(key);
            new PartitionKeys(Murmur3Partitioner.instance).get(in);
            return in.get() & 0xFF;
        }
    }

    /** Where a block lies, without its trailer. */
    record Block(int offset, int size) {}

    private final TestTable table;
    private final Path directory;
    private final TableStore store;
    private int made;

    PeerParts(StorageEngine engine, TestTable table, Path directory) {
        this.table = table;
        this.directory = directory;
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
        ColumnDictionary all = ColumnDictionary.of(0, 0, Tables.context(store).catalog().columns());
        return all.names().indexOf(column);
    }

    /** What the store sends by itself. */
    Parts sent() throws IOException {
        try (OutgoingParts out = store.streamOut(ALL)) {
            List<byte[]> files = new ArrayList<>();
            for (StreamPart part : out.manifest().parts())
                files.add(Files.readAllBytes(out.file(part.index())));
            return new Parts(out.manifest(), files);
        }
    }

    Parts parts(List<Entry> rows, List<Entry> large) throws Exception {
        return parts(rows, large, 7);
    }

    /** A part of rows and one of large cells, or one of them. */
    Parts parts(List<Entry> rows, List<Entry> large, int flags) throws Exception {
        List<byte[]> files = new ArrayList<>();
        List<StreamPart> described = new ArrayList<>();
        for (List<Entry> entries : List.of(rows, large)) {
            if (entries.isEmpty()) continue;
            Path path = directory.resolve("made-" + made++ + ".sst");
            try (TableOptions.ForSst options =
                            Tables.context(store).reopenable().sstOptions().toSend();
                    StreamSst file =
                            new StreamSst(options.data(), path.toString(), entries == rows)) {
                for (Entry entry : entries) file.add(entry.key, entry.value);
                file.finish();
            }
            byte[] bytes = Files.readAllBytes(path);
            described.add(
                    described(
                            files.size(),
                            bytes,
                            ByteBuffer.wrap(entries.get(0).key),
                            ByteBuffer.wrap(entries.get(entries.size() - 1).key)));
            files.add(bytes);
        }
        ColumnDictionary dictionary =
                ColumnDictionary.of(
                        rows.isEmpty() ? 0 : 1, flags, Tables.context(store).catalog().columns());
        return new Parts(
                new StreamManifest(
                        StoreDescriptor.ENGINE,
                        StoreDescriptor.FORMAT,
                        table.metadata().id,
                        table.metadata().name,
                        ALL,
                        dictionary.encode(),
                        described),
                files);
    }

    private static StreamPart described(int index, byte[] file, ByteBuffer first, ByteBuffer last) {
        return new StreamPart(
                index,
                file.length,
                XXHashFactory.fastestInstance().hash64().hash(file, 0, file.length, 0),
                first,
                last);
    }

    /** A manifest and its files. */
    record Parts(StreamManifest manifest, List<byte[]> files) {
        /** With another file, of which the manifest knows. */
        Parts with(int index, byte[] file) {
            List<byte[]> others = new ArrayList<>(files);
            others.set(index, file);
            List<StreamPart> described = new ArrayList<>(manifest.parts());
            StreamPart old = described.get(index);
            described.set(index, PeerParts.described(index, file, old.firstKey(), old.lastKey()));
            return new Parts(with(manifest.dictionary(), described), others);
        }

        Parts with(ByteBuffer dictionary) {
            return new Parts(with(dictionary, manifest.parts()), files);
        }

        Parts with(List<StreamPart> described) {
            return new Parts(with(manifest.dictionary(), described), files);
        }

        private StreamManifest with(ByteBuffer dictionary, List<StreamPart> described) {
            return new StreamManifest(
                    manifest.engine(),
                    manifest.formatVersion(),
                    manifest.table(),
                    manifest.columnFamily(),
                    manifest.ranges(),
                    dictionary,
                    described);
        }

        void send(TableStore to) throws IOException {
            try (IncomingParts in = to.streamIn(manifest, ALL)) {
                for (int i = 0; i < files.size(); i++)
                    in.receive(i, Channels.newChannel(new ByteArrayInputStream(files.get(i))));
                in.ingest();
            }
        }

        /** Of one file, as the parser reads them. */
        List<Entry> entries(int index) throws Exception {
            ColumnDictionary dictionary =
                    ColumnDictionary.decode(manifest.dictionary(), manifest.parts().size());
            int type = index < dictionary.dataParts() ? SstParser.MERGE : SstParser.PUT;
            List<Entry> entries = new ArrayList<>();
            Path file = Files.createTempFile("part", ".sst");
            try {
                Files.write(file, files.get(index));
                try (FileChannel channel = FileChannel.open(file)) {
                    SstParser.read(
                            channel,
                            type,
                            (key, length, in, at, bytes) ->
                                    entries.add(
                                            new Entry(
                                                    Arrays.copyOf(key, length),
                                                    Arrays.copyOfRange(in, at, at + bytes))));
                }
            } finally {
                Files.delete(file);
            }
            return entries;
        }
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

    // Files

    static int indexOf(byte[] in, byte[] what) {
        for (int at = 0; at <= in.length - what.length; at++)
            if (Arrays.equals(in, at, at + what.length, what, 0, what.length)) return at;
        throw new IllegalStateException("not there");
    }

    private static ByteBuffer little(byte[] file) {
        return ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN);
    }

    private static int masked(CRC32C crc, byte[] file, long offset) {
        int base = little(file).getInt(file.length - FOOTER + 9);
        int modifier = base == 0 ? 0 : base ^ ((int) offset + (int) (offset >>> 32));
        return Integer.rotateRight((int) crc.getValue(), 15) + 0xa282ead8 + modifier;
    }

    /** The blocks of an honest file, found by their checksums. */
    static List<Block> blocks(byte[] file) {
        List<Block> blocks = new ArrayList<>();
        CRC32C crc = new CRC32C();
        int offset = 0;
        for (int at = 0; at < file.length - FOOTER - Integer.BYTES; at++) {
            crc.update(file[at]);
            if (little(file).getInt(at + 1) != masked(crc, file, offset)) continue;
            blocks.add(new Block(offset, at - offset));
            crc.reset();
            offset = at + TRAILER;
            at = offset - 1;
        }
        if (offset != file.length - FOOTER)
            throw new IllegalStateException("blocks end at " + offset);
        return blocks;
    }

    /** Makes the checksums of blocks and footer fit. */
    static void fixChecksums(byte[] file, List<Block> blocks) {
        if (file.length < FOOTER) return;
        CRC32C crc = new CRC32C();
        for (Block block : blocks) {
            int end = block.offset + block.size;
            if (end + TRAILER > file.length - FOOTER) continue;
            crc.reset();
            crc.update(file, block.offset, block.size + 1);
            little(file).putInt(end + 1, masked(crc, file, block.offset));
        }
        int footer = file.length - FOOTER;
        little(file).putInt(footer + 5, 0);
        crc.reset();
        crc.update(file, footer, FOOTER);
        little(file).putInt(footer + 5, masked(crc, file, footer));
    }
}
