// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.stream.Peer.Entry;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * What a store sends, with bytes of its blocks changed, in a process of its own: it is refused with
 * a reason and leaves nothing, or is taken and can be read and compacted.
 */
final class BlockFuzz {
    /** Of the files that the receiver stages. */
    private static final String[] COMPRESSIONS = {
        "{'enabled': 'false'}",
        "{'class': 'LZ4Compressor'}",
        "{'class': 'ZstdCompressor'}",
        "{'class': 'DeflateCompressor'}",
        "{'class': 'SnappyCompressor'}",
        "{'class': 'NoopCompressor'}",
    };

    private final Path directory;
    private final Random random;
    private final StorageEngine engine;
    private int stores;
    private int refused;
    private int taken;

    private BlockFuzz(Path directory, long seed) {
        this.directory = directory;
        this.random = new Random(seed);
        this.engine =
                Tables.engine(
                        Map.of("memory", "32MiB", "large_cell", "1KiB", "stream_part", "64KiB"));
    }

    /** Directory, seed, seconds. */
    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[2]));
        BlockFuzz fuzz = new BlockFuzz(Path.of(args[0]), Long.parseLong(args[1]));
        do fuzz.round(end);
        while (System.nanoTime() < end);
        fuzz.engine.close();
        System.out.println("refused " + fuzz.refused + ", taken " + fuzz.taken);
        if (fuzz.refused == 0 || fuzz.taken == 0) throw new AssertionError("nothing was found out");
        // Cassandra's threads are still there.
        System.exit(0);
    }

    private TableStore store(TestTable table) {
        return engine.openStore(table.spec(directory.resolve("to-" + stores++)));
    }

    private void round(long end) throws Exception {
        // Nothing is old enough to be purged, whatever times are made up.
        TestTable table =
                Peer.table(
                        " WITH compression = "
                                + COMPRESSIONS[random.nextInt(COMPRESSIONS.length)]
                                + " AND gc_grace_seconds = 2147483647");
        Peer peer = new Peer(engine, table, directory.resolve("from-" + stores++));
        peer.fill(5 + random.nextInt(100));
        List<byte[]> honest = PeerBlocks.slice(peer.store(), peer.rows(), peer.large());
        List<String> expected = Peer.content(peer.store(), table);
        TableStore to = store(table);
        List<String> before = List.of();
        for (int i = 0; i < 60 && (i < 20 || System.nanoTime() < end); i++) {
            boolean isHonest = random.nextInt(20) == 0;
            List<byte[]> sent = isHonest ? honest : changed(honest);
            boolean isTaken = send(table, random.nextBoolean() ? List.of(sent) : cut(sent), to);
            List<String> after = Peer.content(to, table);
            if (!isTaken) {
                refused++;
                check(after.equals(before), "the store changed");
                continue;
            }
            taken++;
            if (isHonest) {
                check(after.equals(expected), "other content");
                before = after;
            } else {
                to.compact(List.of());
                check(Peer.content(to, table).equals(after), "other content, compacted");
                to.drop();
                to = store(table);
                before = List.of();
            }
        }
        to.drop();
        peer.store().drop();
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    /** In two slices, each with the columns. */
    private List<List<byte[]>> cut(List<byte[]> blocks) {
        int at = 1 + random.nextInt(blocks.size());
        List<byte[]> second = new ArrayList<>(List.of(blocks.get(0)));
        second.addAll(blocks.subList(at, blocks.size()));
        return List.of(blocks.subList(0, at), second);
    }

    private static boolean send(TestTable table, List<List<byte[]>> slices, TableStore to)
            throws IOException {
        try {
            PeerBlocks.send(table, RangeTests.everything(), to, slices);
            return true;
        } catch (IOException | IllegalArgumentException e) {
            check(e.getMessage() != null && !e.getMessage().isBlank(), "no reason");
            return false;
        } finally {
            Path staged = Tables.context(to).directory().resolve(StoreDescriptor.STREAMS);
            if (Files.exists(staged))
                try (var files = Files.list(staged)) {
                    check(files.findAny().isEmpty(), "something is left");
                }
        }
    }

    private List<byte[]> changed(List<byte[]> honest) {
        List<byte[]> blocks = new ArrayList<>(honest);
        int at = random.nextInt(blocks.size());
        switch (random.nextInt(8)) {
            case 0 -> Collections.swap(blocks, at, random.nextInt(blocks.size()));
            case 1 -> blocks.add(random.nextInt(blocks.size()), blocks.get(at));
            case 2 -> blocks.remove(at);
            case 3, 4 -> blocks.set(at, bytes(blocks.get(at)));
            default -> blocks.set(at, entry(blocks.get(at)));
        }
        return blocks;
    }

    /** Changes one key or value, and no length that is not its own. */
    private byte[] entry(byte[] block) {
        if (block[0] == BlockKind.COLUMNS) return bytes(block);
        List<Entry> entries = new ArrayList<>();
        ByteBuffer in = ByteBuffer.wrap(block).order(ByteOrder.LITTLE_ENDIAN).position(1);
        while (in.hasRemaining()) {
            byte[] key = new byte[in.getInt()];
            byte[] value = new byte[in.getInt()];
            in.get(key).get(value);
            entries.add(new Entry(key, value));
        }
        int at = random.nextInt(entries.size());
        Entry entry = entries.get(at);
        entries.set(
                at,
                random.nextInt(4) == 0
                        ? new Entry(bytes(entry.key()), entry.value())
                        : new Entry(entry.key(), bytes(entry.value())));
        return PeerBlocks.entries(block[0], entries);
    }

    private byte[] bytes(byte[] of) {
        byte[] bytes = of.clone();
        if (bytes.length == 0) return bytes;
        int at = random.nextInt(bytes.length);
        switch (random.nextInt(7)) {
            case 0 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
            case 1 -> bytes[at] = (byte) interesting();
            case 2 -> {
                ByteBuffer in = ByteBuffer.wrap(bytes);
                if (random.nextBoolean()) in.order(ByteOrder.LITTLE_ENDIAN);
                if (bytes.length >= 4) in.putInt(Math.min(at, bytes.length - 4), interesting());
            }
            case 3 -> {
                // A varint of many bytes: a length, a count.
                for (int i = at; i < Math.min(at + 4, bytes.length - 1); i++)
                    bytes[i] |= (byte) 0x80;
            }
            case 4 -> {
                int length = 1 + random.nextInt(Math.min(64, bytes.length));
                int from = random.nextInt(bytes.length - length + 1);
                int to = random.nextInt(bytes.length - length + 1);
                System.arraycopy(of, from, bytes, to, length);
            }
            case 5 -> bytes = Arrays.copyOf(bytes, at);
            default -> {
                for (int n = 1 + random.nextInt(8); n > 0; n--)
                    bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
        }
        return bytes;
    }

    private int interesting() {
        int[] numbers = {
            0, 1, -1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 1 << 28, Integer.MAX_VALUE, 1 << 31
        };
        return numbers[random.nextInt(numbers.length)];
    }
}
