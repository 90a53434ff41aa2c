// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.PartitionContent;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.db.TableOptions;
import dev.petra.engine.rocks.stream.Peer.Entry;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.UTF8Type;
import org.apache.cassandra.db.marshal.UserType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.ReadOptions;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;

/** Which files a receiver makes of blocks, and how they go live. */
class StagedStreamTest {
    private static final int PART = 64 << 10;

    private final TestTable table = Peer.table("");

    @TempDir Path directory;
    private StorageEngine engine;
    private Peer peer;
    private TableStore to;

    @BeforeEach
    void open() {
        engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "2KiB", "stream_part", "64KiB"));
        peer = new Peer(engine, table, directory.resolve("from"));
        to = engine.openStore(table.spec(directory.resolve("to")));
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private static String noise(Random random, int length) {
        StringBuilder text = new StringBuilder(length);
        while (text.length() < length) text.append((char) (' ' + random.nextInt(90)));
        return text.toString();
    }

    /** Partitions of so many rows of a kilobyte, of text that is not compressed. */
    private void fill(int partitions, int rows) {
        Random random = new Random(partitions);
        for (int k = 0; k < partitions; k++)
            for (int c = 0; c < rows; c++)
                peer.store()
                        .write(table.update(k).at(1).row(c).set("v", noise(random, 1000)).build());
    }

    /** The staged files of rows, by their order. */
    private List<Path> staged(String slice) throws Exception {
        try (var all = Files.walk(directory.resolve("to").resolve(StoreDescriptor.STREAMS))) {
            return all.filter(file -> file.getFileName().toString().matches(slice + "-\\d+\\.sst"))
                    .sorted(
                            Comparator.comparingInt(
                                    file ->
                                            Integer.parseInt(
                                                    file.getFileName()
                                                            .toString()
                                                            .replaceAll(".*-|\\.sst", ""))))
                    .toList();
        }
    }

    private byte[][] firstAndLast(Path file) throws Exception {
        try (TableOptions.ForSst options = Tables.context(to).reopenable().sstOptions();
                SstFileReader reader = new SstFileReader(options.data());
                ReadOptions how = new ReadOptions()) {
            reader.open(file.toString());
            try (SstFileReaderIterator it = reader.newIterator(how)) {
                it.seekToFirst();
                byte[] first = it.key();
                it.seekToLast();
                return new byte[][] {first, it.key()};
            }
        }
    }

    private boolean isOnePartition(byte[] one, byte[] other) {
        int length = Tables.context(to).positionBytes(one);
        return other.length >= length && Arrays.equals(one, 0, length, other, 0, length);
    }

    /**
     * A dictionary says nothing of fields: what came was compared with the type of when it came.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aFieldThatIsAddedMeanwhileIsTaken(boolean isLate) throws Exception {
        UserType before = TestTable.userType("udt", true, "a", Int32Type.instance);
        UserType after =
                TestTable.userType("udt", true, "a", Int32Type.instance, "b", UTF8Type.instance);
        TestTable ours =
                TestTable.of("CREATE TABLE t (k text, c int, u udt, PRIMARY KEY (k, c))", before);
        TestTable theirs = ours.twin();
        theirs.alter(theirs.metadata().withUpdatedUserType(after));
        Peer newer = new Peer(engine, theirs, directory.resolve("newer"));
        for (int k = 0; k < 50; k++)
            newer.store().write(theirs.update("k" + k).at(1).row(1).put("u", "a", k).build());
        // The position of what is refused is longer than all of the key before.
        for (int k = 0; k < 10; k++)
            newer.store()
                    .write(
                            theirs.update("long ".repeat(50) + k)
                                    .at(1)
                                    .row(1)
                                    .put("u", "b", "field ".repeat(k % 2 == 0 ? 1 : 500))
                                    .build());
        assertThat(newer.large()).isNotEmpty();
        List<byte[]> blocks = PeerBlocks.slice(newer.store(), newer.rows(), newer.large());
        TableStore older = engine.openStore(ours.spec(directory.resolve("older")));
        Thread receiver = Thread.currentThread();
        Thread alter =
                new Thread(
                        () -> {
                            // Until it waits for the field.
                            while (isLate && receiver.getState() != Thread.State.TIMED_WAITING)
                                Thread.onSpinWait();
                            ours.alter(ours.metadata().withUpdatedUserType(after));
                        });
        try (StreamSink in = older.receive(PeerBlocks.head(ours, 1), RangeTests.everything())) {
            try (SliceWriter writer = in.begin(0)) {
                writer.take(ByteBuffer.wrap(blocks.get(0)));
                alter.start();
                if (!isLate) alter.join();
                for (byte[] block : blocks.subList(1, blocks.size()))
                    writer.take(ByteBuffer.wrap(block));
                writer.end();
            } finally {
                alter.join(60_000);
            }
            in.verify();
            while (in.ingest()) in.prepare();
        }
        assertThat(Peer.content(older, ours))
                .hasSize(60)
                .isEqualTo(Peer.content(newer.store(), theirs));
    }

    @Test
    void filesEndBetweenPartitions() throws Exception {
        fill(80, 20);
        List<Entry> rows = peer.rows();
        int half = rows.size() / 2;
        try (StreamSink in = to.receive(PeerBlocks.head(table, 2), RangeTests.everything())) {
            PeerBlocks.take(
                    in,
                    1,
                    PeerBlocks.slice(peer.store(), rows.subList(half, rows.size()), List.of()));
            PeerBlocks.take(
                    in, 0, PeerBlocks.slice(peer.store(), rows.subList(0, half), List.of()));
            for (String slice : new String[] {"0", "1"}) {
                List<Path> files = staged(slice);
                assertThat(files).hasSizeBetween(5, 13);
                byte[] last = null;
                for (Path file : files) {
                    assertThat(Files.size(file)).isLessThan(3 * PART);
                    byte[][] keys = firstAndLast(file);
                    if (last != null) assertThat(isOnePartition(last, keys[0])).isFalse();
                    last = keys[1];
                }
            }
            // Each step leaves partitions whole; those of 0 go first.
            List<Integer> seen = new ArrayList<>();
            boolean more = true;
            while (more) {
                more = in.ingest();
                List<PartitionContent> content = content();
                seen.add(content.size());
                for (PartitionContent partition : content) assertThat(partition.rows()).hasSize(20);
            }
            assertThat(seen).hasSizeGreaterThan(1).isSorted().endsWith(80);
        }
        assertThat(Peer.content(to, table)).isEqualTo(Peer.content(peer.store(), table));
    }

    private List<PartitionContent> content() {
        return PartitionContent.listOf(
                to.scan(DataRange.allData(table.metadata().partitioner), table.all()));
    }

    @Test
    void aPartitionThatIsLargerIsCutAndGoesLiveWhole() throws Exception {
        fill(1, 500);
        try (StreamSink in = to.receive(PeerBlocks.head(table, 1), RangeTests.everything())) {
            PeerBlocks.take(in, 0, PeerBlocks.slice(peer.store(), peer.rows(), List.of()));
            List<Path> files = staged("0");
            assertThat(files).hasSizeBetween(2, 6);
            for (Path file : files) assertThat(Files.size(file)).isLessThan(4 * PART);
            // They are of one step.
            assertThat(in.ingest()).isFalse();
        }
        assertThat(content().get(0).rows()).hasSize(500);
    }

    /** As what was there before columns were added here in another order. */
    @Test
    void columnsOfOtherIdsAreUnderstood() throws Exception {
        TestTable twin = table.twin();
        TableStore other = engine.openStore(twin.spec(directory.resolve("twin")));
        for (String column : new String[] {"a", "z"}) table.addColumn(column, UTF8Type.instance);
        for (String column : new String[] {"z", "a"}) {
            twin.addColumn(column, UTF8Type.instance);
            other.write(twin.update(-1).at(1).row(1).set(column, "here").build());
        }
        String large = "x".repeat(5000);
        for (int k = 0; k < 30; k++) {
            peer.store()
                    .write(table.update(k).at(k).row(k).set("a", large).set("z", "z" + k).build());
            peer.store().write(table.update(k).at(k).row(k).set("v", large + "v").build());
        }
        PeerBlocks.send(
                twin,
                RangeTests.everything(),
                other,
                List.of(PeerBlocks.slice(peer.store(), peer.rows(), peer.large())));
        List<PartitionContent> received =
                PartitionContent.listOf(
                        other.scan(DataRange.allData(twin.metadata().partitioner), twin.all()));
        assertThat(received).hasSize(31);
        for (int k = 0; k < 30; k++)
            other.write(
                    twin.update(k)
                            .at(k)
                            .row(k)
                            .set("a", large)
                            .set("z", "z" + k)
                            .set("v", large + "v")
                            .build());
        // What was there already changes nothing.
        assertThat(
                        PartitionContent.listOf(
                                other.scan(
                                        DataRange.allData(twin.metadata().partitioner),
                                        twin.all())))
                .isEqualTo(received);
    }

    /** The types that a table's new column has are looked at from the dictionary on that has it. */
    @Test
    void aColumnThatIsAddedMeanwhileIsLookedAt() throws Exception {
        fill(2, 2);
        try (StreamSink in = to.receive(PeerBlocks.head(table, 1), RangeTests.everything());
                SliceWriter writer = in.begin(0)) {
            writer.take(ByteBuffer.wrap(PeerBlocks.columns(peer.store())));
            table.addColumn("more", Int32Type.instance);
            peer.store().write(table.update(1).at(2).row(1).set("more", 5).build());
            writer.take(ByteBuffer.wrap(PeerBlocks.columns(peer.store())));
            Entry row = peer.rows().get(0);
            int id = peer.id("more") << 1;
            byte[] shorter = {0, 0x0e, 0, 0, 0, 0, 0, 0, 0, 9, (byte) id, 1, 3, 1, 2, 3};
            byte[] lie = PeerBlocks.rows(List.of(new Entry(row.key(), shorter)));
            assertThatThrownBy(() -> writer.take(ByteBuffer.wrap(lie)))
                    .hasMessageContaining("a value of 3 bytes");
        }
    }

    /** It was taken for damage of the store, which was to be restored from a snapshot then. */
    @Test
    void damageOfAStagedFileIsNoneOfTheStore() throws Exception {
        fill(1, 40);
        to.write(table.update(7).at(1).row(7).set("v", "there").build());
        List<String> before = Peer.content(to, table);
        List<Entry> rows = peer.rows();
        // RocksDB reads the first key and the last one when it takes a file.
        for (Entry damaged : List.of(rows.get(0), rows.get(rows.size() - 1))) {
            try (StreamSink in = to.receive(PeerBlocks.head(table, 1), RangeTests.everything())) {
                PeerBlocks.take(in, 0, PeerBlocks.slice(peer.store(), rows, List.of()));
                in.verify();
                Path file = staged("0").get(0);
                byte[] bytes = Files.readAllBytes(file);
                bytes[Peer.indexOf(bytes, damaged.value())] ^= 1;
                Files.write(file, bytes);
                assertThatThrownBy(in::ingest)
                        .isInstanceOf(IOException.class)
                        .hasMessageContaining(file.toString())
                        .hasMessageContaining("repeat the operation that streams");
            }
            assertThat(directory.resolve("to").resolve(StoreDescriptor.STREAMS)).isEmptyDirectory();
            assertThat(Peer.content(to, table)).isEqualTo(before);
        }
        to.write(table.update(8).at(1).row(8).set("v", "after").build());
        assertThat(Peer.content(to, table)).hasSize(2);
    }

    /** The store waits for no peer, and what the peer sends then is refused. */
    @Test
    void aStoreEndsWhileASliceIsOnItsWay() throws Exception {
        fill(10, 20);
        List<byte[]> blocks = PeerBlocks.slice(peer.store(), peer.rows(), List.of());
        for (boolean drop : new boolean[] {false, true}) {
            TableStore ending = engine.openStore(table.spec(directory.resolve("ending")));
            StreamSink in = ending.receive(PeerBlocks.head(table, 1), RangeTests.everything());
            SliceWriter writer = in.begin(0);
            for (byte[] block : blocks.subList(0, 20)) writer.take(ByteBuffer.wrap(block));
            if (drop) ending.drop();
            else ending.close();
            assertThatThrownBy(() -> writer.take(ByteBuffer.wrap(blocks.get(20))))
                    .isInstanceOf(IllegalStateException.class);
            assertThatThrownBy(writer::end).isInstanceOf(IllegalStateException.class);
            in.close();
            writer.close();
            if (drop) assertThat(directory.resolve("ending")).doesNotExist();
        }
    }
}
