// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.stream.PeerParts.Block;
import dev.petra.engine.rocks.stream.PeerParts.Entry;
import dev.petra.engine.rocks.stream.PeerParts.Parts;
import dev.petra.engine.stream.StreamPart;
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
import org.apache.cassandra.utils.ByteBufferUtil;

/**
 * Sends parts to a store that were honest before bytes of theirs were changed: at random, and where
 * it hurts, with checksums that fit all the same. Each is refused with a reason and leaves the
 * store as it was, or is taken; taken, its content is what the honest one has if the entries are
 * the same, and can be read and compacted in any case. A process of its own, since what it looks
 * for may end it: {@link PartFuzzTest}.
 */
final class PartFuzz {
    private static final String[] COMPRESSIONS = {
        " WITH compression = {'enabled': 'false'}",
        " WITH compression = {'class': 'LZ4Compressor'}",
        " WITH compression = {'class': 'ZstdCompressor'}",
        " WITH compression = {'class': 'DeflateCompressor'}",
        " WITH compression = {'class': 'SnappyCompressor'}",
    };

    private final Path directory;
    private final Random random;
    private final StorageEngine engine;
    private int stores;
    private int refused;
    private int taken;

    private PartFuzz(Path directory, long seed) {
        this.directory = directory;
        this.random = new Random(seed);
        this.engine = Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"));
    }

    /** Directory, seed, seconds. */
    public static void main(String[] args) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(args[2]));
        PartFuzz fuzz = new PartFuzz(Path.of(args[0]), Long.parseLong(args[1]));
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
        TestTable table = PeerParts.table(COMPRESSIONS[random.nextInt(COMPRESSIONS.length)]);
        PeerParts peer = new PeerParts(engine, table, directory.resolve("from-" + stores++));
        peer.fill(5 + random.nextInt(100));
        Parts honest = peer.sent();
        List<String> expected = PeerParts.content(peer.store(), table);
        TableStore to = store(table);
        List<String> before = List.of();
        for (int i = 0; i < 60 && (i < 20 || System.nanoTime() < end); i++) {
            Parts sent = random.nextInt(8) == 0 ? manifest(honest) : file(honest);
            boolean isTaken = send(sent, to);
            List<String> after = PeerParts.content(to, table);
            if (!isTaken) {
                refused++;
                check(after.equals(before), "the store changed");
                continue;
            }
            taken++;
            if (isSame(honest, sent)) {
                check(after.equals(expected), "other content");
                before = after;
            } else {
                to.compact(List.of());
                check(PeerParts.content(to, table).equals(after), "other content, compacted");
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

    private static boolean send(Parts parts, TableStore to) throws IOException {
        try {
            parts.send(to);
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

    private static boolean isSame(Parts honest, Parts sent) throws Exception {
        if (honest.files().size() != sent.files().size()) return false;
        if (!honest.manifest().dictionary().equals(sent.manifest().dictionary())) return false;
        for (int i = 0; i < honest.files().size(); i++) {
            List<Entry> one = honest.entries(i);
            List<Entry> other = sent.entries(i);
            if (one.size() != other.size()) return false;
            for (int e = 0; e < one.size(); e++)
                if (!Arrays.equals(one.get(e).key(), other.get(e).key())
                        || !Arrays.equals(one.get(e).value(), other.get(e).value())) return false;
        }
        return true;
    }

    // Manifests

    private Parts manifest(Parts honest) {
        if (random.nextBoolean()) {
            byte[] dictionary = ByteBufferUtil.getArray(honest.manifest().dictionary());
            return honest.with(ByteBuffer.wrap(bytes(dictionary)));
        }
        List<StreamPart> parts = new ArrayList<>(honest.manifest().parts());
        int at = random.nextInt(parts.size());
        StreamPart part = parts.get(at);
        byte[] first = ByteBufferUtil.getArray(part.firstKey());
        byte[] last = ByteBufferUtil.getArray(part.lastKey());
        long bytes = part.bytes();
        switch (random.nextInt(4)) {
            case 0 -> first = bytes(first);
            case 1 -> last = bytes(last);
            case 2 -> bytes = Math.abs(interesting());
            default -> bytes++;
        }
        parts.set(
                at,
                new StreamPart(
                        at,
                        Math.max(0, bytes),
                        part.checksum(),
                        ByteBuffer.wrap(first),
                        ByteBuffer.wrap(last)));
        return honest.with(parts);
    }

    // Files

    private Parts file(Parts honest) {
        int index = random.nextInt(honest.files().size());
        byte[] file = honest.files().get(index);
        List<Block> blocks = PeerParts.blocks(file);
        byte[] other =
                switch (random.nextInt(6)) {
                    case 0 -> moved(file, blocks);
                    case 1 -> footer(file.clone());
                    case 2 -> properties(file, blocks);
                    default -> inBlock(file.clone(), blocks);
                };
        if (random.nextInt(4) > 0) PeerParts.fixChecksums(other, blocks);
        return honest.with(index, other);
    }

    private byte[] inBlock(byte[] file, List<Block> blocks) {
        // Those behind the data are few, and say the most.
        int from = random.nextBoolean() ? Math.max(0, blocks.size() - 4) : 0;
        Block block = blocks.get(from + random.nextInt(blocks.size() - from));
        byte[] content =
                Arrays.copyOfRange(file, block.offset(), block.offset() + block.size() + 1);
        byte[] changed = Arrays.copyOf(bytes(content), content.length);
        System.arraycopy(changed, 0, file, block.offset(), changed.length);
        return file;
    }

    private byte[] footer(byte[] file) {
        int at = file.length - 1 - random.nextInt(53);
        if (random.nextBoolean()) file[at] = (byte) random.nextInt();
        else
            ByteBuffer.wrap(file)
                    .order(ByteOrder.LITTLE_ENDIAN)
                    .putInt(Math.min(at, file.length - 4), (int) interesting());
        return file;
    }

    /** Blocks in another order, twice, or cut. */
    private byte[] moved(byte[] file, List<Block> blocks) {
        if (random.nextInt(3) == 0) return Arrays.copyOf(file, random.nextInt(file.length));
        List<Block> order = new ArrayList<>(blocks);
        if (random.nextBoolean()) Collections.swap(order, random.nextInt(order.size()), 0);
        else order.add(random.nextInt(order.size()), order.get(random.nextInt(order.size())));
        ByteBuffer out = ByteBuffer.allocate(2 * file.length);
        for (Block block : order) out.put(file, block.offset(), block.size() + 5);
        out.put(file, file.length - 53, 53);
        return Arrays.copyOf(out.array(), out.position());
    }

    /** A digit or a name in the properties, which say what the file is. */
    private byte[] properties(byte[] file, List<Block> blocks) {
        byte[] changed = file.clone();
        for (int i = 0; i < blocks.size(); i++) {
            Block block = blocks.get(i);
            byte[] name = "rocksdb.num.entries".getBytes(java.nio.charset.StandardCharsets.UTF_8);
            byte[] content =
                    Arrays.copyOfRange(file, block.offset(), block.offset() + block.size());
            if (i < blocks.size() - 4 || Collections.indexOfSubList(list(content), list(name)) < 0)
                continue;
            for (int n = 1 + random.nextInt(8); n > 0; n--)
                changed[block.offset() + random.nextInt(block.size())] = (byte) interesting();
        }
        return changed;
    }

    private static List<Byte> list(byte[] bytes) {
        List<Byte> list = new ArrayList<>();
        for (byte b : bytes) list.add(b);
        return list;
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
                if (bytes.length >= 4)
                    in.putInt(Math.min(at, bytes.length - 4), (int) interesting());
            }
            case 3 -> {
                // A varint of many bytes: a length, a count, the size of what was compressed.
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

    private long interesting() {
        long[] numbers = {
            0,
            1,
            -1,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0xffff,
            1 << 28,
            Integer.MAX_VALUE,
            Integer.MIN_VALUE,
            Long.MAX_VALUE,
            1L << 40
        };
        return numbers[random.nextInt(numbers.length)];
    }
}
