// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.Database;
import dev.petra.engine.rocks.db.Hold;
import dev.petra.engine.rocks.db.Lease;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.format.KeyKind;
import dev.petra.engine.rocks.format.LargeBuffers;
import dev.petra.engine.rocks.format.TokenRanges.KeyRange;
import dev.petra.engine.rocks.read.Cursor;
import dev.petra.engine.stream.BlockMemory;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.Slice;

/**
 * Reads one slice, lease by lease: rows up to the end of the partition in which {@code stream_part}
 * bytes were reached, about, and behind them the large cells of these rows, as of the same moment.
 * What comes later is of later moments. A partition larger than {@value #STEP} times that is of
 * several, each for whole rows: a lease keeps files and write buffers from going, and must end. So
 * is one whose rows alone are larger than that many MiB, where the table has large cells.
 *
 * <p>Where a lease is revoked, as the database is opened anew after a full disk, the next one goes
 * on behind the last row. Not if large cells of rows that were sent were not: a later moment may
 * not have them any more.
 *
 * <h2>Blocks</h2>
 *
 * A block begins with a byte that says what follows it ({@link BlockKind}). Columns come before the
 * first entries, and again before those that may refer to a column that was not among them. Entries
 * are as the native {@code fetch} packs them: the lengths of key and value, four bytes each,
 * little-endian, key, value. Rows ascend through the whole slice, and so do large cells.
 */
final class SliceCursor implements SliceReader {
    /**
     * Bytes of a block at the most, but where one entry alone has more. Packed, with its frame, it
     * fits in one of the buffers that Cassandra keeps for its connections.
     */
    static final int BLOCK = 120 << 10;

    /**
     * Bytes of rows of a lease, about, where the table has large cells: those that come next may
     * refer to many times more than those before did.
     */
    private static final int MOST_ROWS_BESIDE_LARGE = 1 << 20;

    /** The most bytes of a key that a message shows. */
    private static final int MOST_SHOWN = 512;

    private static final int ENTRY_HEAD = 2 * Integer.BYTES;

    /** Partitions larger than so many of the receiver's files are seen in pieces there, too. */
    private static final int STEP = 8;

    private final RangeSource source;
    private final StoreContext store;
    private final Hold hold;
    private final List<KeyRange> ranges;
    private boolean closed;

    /** How many columns the receiver knows; less than none before the first dictionary. */
    private int columns = -1;

    /** Which range is read now. */
    private int range;

    /** Where the present lease, or the next one, begins. */
    private byte[] from;

    /** The options for the present range. */
    private @Nullable ReadOptions options;

    private @Nullable Slice end;

    /**
     * The part of what the last lease gave that was rows: rows may be few bytes, and their large
     * cells many. At first the lease is as short as can be.
     */
    private double rowsShare;

    // The lease

    /** Also closed by the source. */
    private volatile @Nullable Lease lease;

    private boolean hasLarge;

    /** Whether its iterator of large cells is where they begin, or behind that. */
    private boolean inLarge;

    /** The bytes of the rows that it gave. */
    private long bytes;

    /** The bytes of the large cells that it gave. */
    private long largeBytes;

    /** The key of the last row that it gave. */
    private byte @Nullable [] last;

    /** The end of the partition that is to be completed; null before it gave enough. */
    private byte @Nullable [] complete;

    /** Before which row it ends; null while rows are given. */
    private byte @Nullable [] until;

    // The block

    private @Nullable ByteBuffer block;

    /** How much of its capacity is used. */
    private int room;

    /** How many bytes of {@link BlockMemory#OUTGOING} it has. */
    private int held;

    /** Where its entries end. */
    private int filled;

    /** Where its last entry is; 0 if it has none. */
    private int lastEntry;

    /** The key of the first entry that has no room in it, or does not belong in it; or null. */
    private byte @Nullable [] rest;

    /** How large a block that entry needs, where it needs a larger one; else 0. */
    private long needed;

    SliceCursor(RangeSource source, StoreContext store, Hold hold, List<KeyRange> ranges) {
        this.source = source;
        this.store = store;
        this.hold = hold;
        this.ranges = ranges;
        this.from = ranges.get(0).from();
    }

    @Override
    public synchronized @Nullable ByteBuffer next() throws IOException {
        try {
            while (true) {
                if (closed) throw new IllegalStateException("The slice is closed.");
                source.checkOpen();
                if (range == ranges.size()) return null;
                if (lease == null && !begin()) continue;
                Map<String, String> known = store.catalog().columns();
                if (last == null && known.size() > columns) {
                    // Behind the opening: what rows refer to was known before.
                    columns = known.size();
                    return SliceColumns.of(known).block(store.name());
                }
                ByteBuffer next = until == null ? rows() : large();
                if (next != null) return next;
            }
        } catch (RocksDBException e) {
            throw store.reopenable().onRead(e);
        } catch (WriteStallException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    // Leases

    /** Takes a lease; false if it has nothing to give. */
    private boolean begin() throws RocksDBException {
        KeyRange present = ranges.get(range);
        if (options == null) {
            end = new Slice(present.to());
            // The cache is for others.
            options = Database.newReadOptions().setFillCache(false).setIterateUpperBound(end);
        }
        Lease fresh = hold.lease(options);
        lease = fresh;
        if (source.isClosed()) {
            // If this was closed meanwhile, it may have missed this lease.
            endLease();
            return false;
        }
        bytes = 0;
        largeBytes = 0;
        last = null;
        complete = null;
        until = null;
        inLarge = false;
        // Asked behind the opening: if there are none now, the iterator sees none.
        hasLarge = store.catalog().has(Catalog.Flag.LARGE_CELLS);
        byte[] begin = from;
        Boolean isThere = fresh.read((rows, large) -> seek(rows, begin));
        if (isThere == null) {
            endLease();
            return false;
        }
        if (isThere) return true;
        endRange();
        return false;
    }

    private static boolean seek(RocksIterator it, byte[] key) throws RocksDBException {
        it.seek(key);
        if (it.isValid()) return true;
        it.status();
        return false;
    }

    private void endLease() {
        closeLease();
        lease = null;
    }

    /** From any thread: nothing more is given. */
    void closeLease() {
        Lease present = lease;
        if (present != null) present.close();
    }

    /** The lease has given everything that it had. */
    private void leaseGiven() {
        byte[] next = Objects.requireNonNull(until);
        rowsShare = (double) bytes / (bytes + largeBytes);
        if (Arrays.equals(next, ranges.get(range).to())) {
            endRange();
        } else {
            endLease();
            from = next;
        }
    }

    private void endRange() {
        endLease();
        closeOptions();
        range++;
        if (range < ranges.size()) from = ranges.get(range).from();
    }

    private void closeOptions() {
        if (options != null) options.close();
        if (end != null) end.close();
        options = null;
        end = null;
    }

    /** The database is opened anew: goes on where that can be, by another lease. */
    private void revoked() throws IOException {
        source.checkOpen();
        byte[] reached = last;
        if (reached != null && hasLarge)
            // The lease stays, so that the next call throws this again.
            throw new IOException(
                    "The stream of "
                            + store.name()
                            + " must begin anew: the disk was full, and the database was opened"
                            + " again after rows were sent and before their large cells were.");
        endLease();
        // Of an entry that may be smaller by now, or gone.
        needed = 0;
        if (reached != null) from = Arrays.copyOf(reached, reached.length + 1);
    }

    // Blocks

    private @Nullable ByteBuffer rows() throws RocksDBException, IOException {
        if (!fill(BlockKind.ROWS)) return null;
        if (complete != null) cut(complete);
        bytes += filled;
        byte[] given = key(lastEntry);
        last = given;
        if (rest == null) {
            until = ranges.get(range).to();
        } else {
            long part = store.settings().streamPart();
            long wanted =
                    hasLarge ? Math.min((long) (part * rowsShare), MOST_ROWS_BESIDE_LARGE) : part;
            if (complete == null && bytes >= wanted) complete = endOfPartition(given);
            boolean isComplete = complete != null && Arrays.compareUnsigned(rest, complete) >= 0;
            long most = hasLarge ? Math.min(part, MOST_ROWS_BESIDE_LARGE) : part;
            if (isComplete || bytes >= STEP * most) until = rest;
        }
        if (until != null && !hasLarge) leaseGiven();
        return given();
    }

    private byte[] endOfPartition(byte[] key) {
        int position = store.positionBytes(key);
        byte[] end = Arrays.copyOf(key, position + 1);
        end[position] = (byte) KeyKind.END;
        return end;
    }

    /** Their keys begin with those of their rows, and so lie within the same bounds. */
    private @Nullable ByteBuffer large() throws RocksDBException, IOException {
        byte[] limit = Objects.requireNonNull(until);
        if (!fill(BlockKind.LARGE)) return null;
        cut(limit);
        largeBytes += filled;
        if (rest == null || Arrays.compareUnsigned(rest, limit) >= 0) leaseGiven();
        return lastEntry == 0 ? null : given();
    }

    private ByteBuffer given() {
        return block().clear().limit(filled);
    }

    /** Fills the block with what comes next; false if the lease is revoked. */
    private boolean fill(byte kind) throws RocksDBException, IOException {
        if (block == null || room > BLOCK) lend(BLOCK);
        Lease present = Objects.requireNonNull(lease);
        do {
            if (needed > 0) {
                if (needed > SliceWriter.MAX_BLOCK) throw tooLarge();
                lend((int) needed);
            }
            Integer count =
                    present.read((rows, large) -> fetch(kind == BlockKind.ROWS ? rows : large));
            if (count == null) {
                revoked();
                return false;
            }
            block().clear().put(0, kind);
            filled = 1;
            lastEntry = 0;
            for (int i = 0; i < count; i++) {
                lastEntry = filled;
                filled = entryEnd(filled);
            }
        } while (needed > 0);
        return true;
    }

    private int fetch(RocksIterator it) throws RocksDBException {
        byte[] limit = until;
        if (limit != null && !inLarge) {
            it.seek(from);
            inLarge = true;
        }
        ByteBuffer entries = block().clear().slice(1, room - 1);
        int fetched = Cursor.fetch(it, entries);
        int count = fetched & Integer.MAX_VALUE;
        needed = 0;
        rest = null;
        if (fetched < 0) {
            rest = it.key();
            boolean isWanted = limit == null || Arrays.compareUnsigned(rest, limit) < 0;
            if (count == 0 && isWanted) needed = 1L + ENTRY_HEAD + rest.length + it.value(entries);
        } else {
            it.status();
        }
        return count;
    }

    /** Leaves out what does not come before a key. */
    private void cut(byte[] limit) {
        if (lastEntry == 0 || compare(lastEntry, limit) < 0) return;
        int before = 0;
        int at = 1;
        while (compare(at, limit) < 0) {
            before = at;
            at = entryEnd(at);
        }
        rest = key(at);
        filled = at;
        lastEntry = before;
    }

    private ByteBuffer block() {
        return Objects.requireNonNull(block);
    }

    private int entryEnd(int entry) {
        return entry + ENTRY_HEAD + block().getInt(entry) + block().getInt(entry + Integer.BYTES);
    }

    private byte[] key(int entry) {
        byte[] key = new byte[block().getInt(entry)];
        block().get(entry + ENTRY_HEAD, key);
        return key;
    }

    private int compare(int entry, byte[] key) {
        ByteBuffer in = block();
        int size = in.getInt(entry);
        for (int i = 0; i < size && i < key.length; i++) {
            int difference = (in.get(entry + ENTRY_HEAD + i) & 0xFF) - (key[i] & 0xFF);
            if (difference != 0) return difference;
        }
        return size - key.length;
    }

    private IOException tooLarge() {
        byte[] key = Objects.requireNonNull(rest);
        ByteBuffer partition =
                ByteBuffer.wrap(key, 0, Math.min(MOST_SHOWN, store.positionBytes(key)));
        return new IOException(
                ("A row or a large cell of %s has %d bytes, more than a slice takes (%d). Its key"
                                + " begins with %s, which is a token and a partition key. Start the"
                                + " receiving node with -D%s=false, to be sent SSTables.")
                        .formatted(
                                store.name(),
                                needed,
                                SliceWriter.MAX_BLOCK,
                                ByteBufferUtil.bytesToHex(partition),
                                StreamSource.SLICES_PROPERTY));
    }

    /** Takes a block of so many bytes for the present one. Large ones wait for each other. */
    private void lend(int bytes) throws IOException {
        giveBack();
        if (bytes > SliceWriter.BLOCK) {
            BlockMemory.OUTGOING.acquire(bytes, source::checkOpen);
            held = bytes;
        }
        room = bytes;
        block =
                BlockMemory.allocate(bytes, LargeBuffers.OF_PROCESS::lend)
                        .order(ByteOrder.LITTLE_ENDIAN);
    }

    private void giveBack() {
        if (block != null) LargeBuffers.OF_PROCESS.giveBack(block);
        block = null;
        if (held > 0) BlockMemory.OUTGOING.release(held);
        held = 0;
    }

    @Override
    public synchronized void close() {
        if (closed) return;
        closed = true;
        endLease();
        closeOptions();
        giveBack();
        source.forget(this);
    }
}
