// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import dev.petra.engine.WriteStallException;
import dev.petra.engine.rocks.db.Catalog;
import dev.petra.engine.rocks.db.StoreContext;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.format.TokenRanges;
import dev.petra.engine.rocks.stream.StagedSlice.Staged;
import dev.petra.engine.rocks.stream.StagedSlice.Whole;
import dev.petra.engine.rocks.write.WritePath;
import dev.petra.engine.stream.PledgedRoom;
import dev.petra.engine.stream.SliceStages;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Function;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The slices of a stream on their way into a store: staged in a directory of the store's as files
 * of its own, and ingested. Where the sender has given other ids to the columns, the files are
 * written anew with those of this store. Thread-safe.
 */
public final class StagedStream implements StreamSink {
    private static final Logger logger = LoggerFactory.getLogger(StagedStream.class);

    /** The most bytes that are set aside for a file that is being written. */
    private static final long MOST_PLEDGED = 8 << 20;

    private static final long PAUSE_NANOS = TimeUnit.MILLISECONDS.toNanos(20);
    private static final long PROBE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(5);
    private static final long TELL_EVERY_NANOS = TimeUnit.MINUTES.toNanos(2);

    /** How long a stream waits for an ALTER that never comes, all of its slices together. */
    private static final long SCHEMA_NANOS = TimeUnit.SECONDS.toNanos(5);

    private final StoreContext store;
    private final Ingester ingester;
    private final StagedTerms terms;
    private final StreamHead head;
    private final Path directory;
    private final List<TokenRanges.KeyRange> notOwned;
    private final SliceStages<Slice> slices;

    /** A slice that is staged. */
    private record Slice(Whole rows, Whole large) {}

    /** The columns of all slices. */
    private final AtomicReference<SliceColumns> columns = new AtomicReference<>(SliceColumns.NONE);

    /** In the order in which they become live; null until all was verified. */
    private @Nullable List<Staged> files;

    /** How many files have the ids of this store by now, which must not be changed again. */
    private int renumbered;

    private boolean arriving;
    private boolean ingested;

    /** How many files are live. */
    private int live;

    /** Whether more may be: large cells go live before rows, which may fail then. */
    private boolean tried;

    /** Whether the store did not take the last step, maybe because writes wait. */
    private volatile boolean refused;

    /** How many are synced. */
    private int synced;

    /** Until when slices wait for the schema; 0 as long as none had to. */
    private final AtomicLong schemaUntil = new AtomicLong();

    /** When it last went on, or said why it does not. */
    private volatile long told = System.nanoTime();

    /** Shorter in tests. */
    volatile long tellEveryNanos = TELL_EVERY_NANOS;

    private volatile boolean closed;

    /**
     * @param directory of its own, not there yet
     */
    public StagedStream(
            StoreContext store,
            Ingester ingester,
            WritePath writes,
            StreamHead head,
            Collection<Range<Token>> owned,
            Path directory) {
        this.store = store;
        this.ingester = ingester;
        this.terms = new StagedTerms(store, writes, this::checkOpen);
        this.head = head;
        this.directory = directory;
        refuseUnless(head.engine().equals(StoreDescriptor.ENGINE), "its engine");
        refuseUnless(head.format() == StoreDescriptor.FORMAT, "its format");
        refuseUnless(head.table().equals(store.table().id), "its table");
        refuseUnless(head.columnFamily().equals(store.spec().columnFamily()), "its column family");
        if (!store.catalog().indexes().isEmpty() && store.indexing().terms() == null)
            throw new IllegalArgumentException(
                    "The store of "
                            + store.name()
                            + " has an index, and deriveBy was not called: the entries of the rows"
                            + " that a stream brings cannot be derived. It refuses "
                            + head
                            + ".");
        this.notOwned = TokenRanges.gaps(owned, store.partitionKeys());
        this.slices = new SliceStages<>(store.name(), head.slices());
    }

    private void refuseUnless(boolean fits, String what) {
        if (!fits)
            throw new IllegalArgumentException(
                    "The store of %s (engine %s, format %d) refuses %s: %s does not fit."
                            .formatted(
                                    store.name(),
                                    StoreDescriptor.ENGINE,
                                    StoreDescriptor.FORMAT,
                                    head,
                                    what));
    }

    Path directory() {
        return directory;
    }

    List<TokenRanges.KeyRange> notOwned() {
        return notOwned;
    }

    /**
     * Sets room aside for what a file takes next.
     *
     * @throws IOException if there is none: not an error of the disk, at which a node may stop
     */
    PledgedRoom pledge() throws IOException {
        Files.createDirectories(directory);
        return PledgedRoom.of(directory, Math.min(MOST_PLEDGED, 2 * store.settings().streamPart()));
    }

    /** What a slice refers to must be what the others do. */
    void columns(SliceColumns more) {
        columns.updateAndGet(known -> known.joined(more));
    }

    @Override
    public SliceWriter begin(int slice) {
        checkOpen();
        slices.begin(slice);
        return new StagedSlice(this, store, slice);
    }

    void ended(int slice, Whole rows, Whole large) {
        slices.staged(slice, new Slice(rows, large));
    }

    void torn(int slice) {
        slices.torn(slice);
    }

    void undeleted(IOException e) {
        logger.warn(
                "Files of a stream in {} cannot be deleted now; they are deleted at the end of the"
                        + " stream",
                directory,
                e);
    }

    /**
     * Waits for what the schema of this node does not have, as a column: the ALTER that the sender
     * knows may be on its way. Afterwards cells of such a column are refused. To be called where
     * nothing of the store is held.
     *
     * @param isKnown asks the schema as it is now
     * @return false if it did not come
     */
    boolean awaitSchema(BooleanSupplier isKnown) {
        if (isKnown.getAsBoolean()) return true;
        long now = System.nanoTime();
        long until = schemaUntil.updateAndGet(known -> known == 0 ? now + SCHEMA_NANOS : known);
        while (System.nanoTime() - until < 0) {
            checkOpen();
            LockSupport.parkNanos(PAUSE_NANOS);
            if (!isKnown.getAsBoolean()) continue;
            // The next ALTER has as long.
            schemaUntil.set(0);
            return true;
        }
        return false;
    }

    @Override
    public synchronized void verify() throws IOException {
        checkOpen();
        List<Staged> staged = files;
        if (staged == null) {
            List<Slice> all = slices.all();
            staged = new ArrayList<>();
            // Large cells come before the rows that refer to them, and rows in the order of their
            // keys, where a deletion comes before what it hides.
            add(all, Slice::large, staged);
            add(all, Slice::rows, staged);
            files = staged;
        }
        // Here, and not when they become live, because the caller of that holds the table.
        renumber(staged);
    }

    /** Adds the files of all slices, whose keys must ascend. */
    private void add(List<Slice> all, Function<Slice, Whole> family, List<Staged> staged)
            throws IOException {
        byte[] last = {};
        for (int i = 0; i < all.size(); i++) {
            Whole of = family.apply(all.get(i));
            byte[] first = of.first();
            if (first == null) continue;
            if (Arrays.compareUnsigned(last, first) >= 0)
                throw new IOException(
                        "Slice %d for %s: its keys are not behind those of the slices before"
                                .formatted(i, store.name()));
            List<Staged> more = of.files();
            Staged begin = more.get(0);
            staged.add(new Staged(begin.path(), begin.isData(), isWithin(last, first)));
            staged.addAll(more.subList(1, more.size()));
            last = of.last();
        }
    }

    private boolean isWithin(byte[] last, byte[] first) {
        if (last.length == 0) return false;
        int length = store.positionBytes(last);
        return first.length >= length && Arrays.equals(last, 0, length, first, 0, length);
    }

    /** Before the files become live: from here on the ids are for good. */
    @SuppressWarnings("try") // the room is held, not used
    private void renumber(List<Staged> staged) throws IOException {
        if (renumbered == staged.size()) return;
        SliceColumns theirs = Objects.requireNonNull(columns.get());
        int[] ids = adopt(theirs.names());
        boolean same = true;
        for (int id = 0; id < ids.length; id++)
            same &= ids[id] == id || ids[id] == Catalog.NO_COLUMN;
        if (same) renumbered = staged.size();
        Renumbering renumbering = new Renumbering(store, ids);
        for (; renumbered < staged.size(); renumbered++) {
            // Checked for each file, so that closing does not wait for all of them.
            checkOpen();
            Staged file = staged.get(renumbered);
            try (PledgedRoom room = PledgedRoom.of(directory, Files.size(file.path()))) {
                // The last thing that may fail: a file must not be written anew twice.
                renumbering.rewrite(file.path(), file.isData());
            }
        }
    }

    /** The ids that columns have here; those that are new are written to the catalog. */
    private int[] adopt(List<String> names) {
        told = System.nanoTime();
        while (true) {
            checkOpen();
            try {
                return store.reopenable()
                        .write(database -> store.catalog().adopt(names, store.table()));
            } catch (WriteStallException e) {
                pause(e);
            }
        }
    }

    @Override
    public synchronized boolean ingest() throws IOException {
        checkOpen();
        if (ingested) throw new IllegalStateException("This stream was ingested.");
        beginArriving();
        List<Staged> all = Objects.requireNonNull(files);
        int next = next(all, isIndexed());
        // What prepare has not: without it, or where a step has become larger since.
        sync(all, next);
        List<Path> data = paths(all.subList(live, next), true);
        List<Path> large = paths(all.subList(live, next), false);
        int flags = 0;
        for (Slice slice : slices.all()) flags |= slice.rows().flags() | slice.large().flags();
        BooleanSupplier isPrepared = () -> data.isEmpty() || terms.areAdded(data);
        tried |= next > live;
        try {
            refused = next > live && !ingester.ingest(data, large, flags, isPrepared);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
        if (!refused) {
            live = next;
            told = System.nanoTime();
        }
        ingested = live == all.size();
        if (ingested) end();
        return !ingested;
    }

    /**
     * How many are live after the next step. One does not end within a partition, of which a reader
     * would see a part, for good if the rest never comes; unless it is larger than all of a step.
     */
    private int next(List<Staged> all, boolean isIndexed) {
        int most = Math.min(all.size(), live + Ingester.AT_ONCE);
        // Large cells in a step of their own: index entries of rows are derived from live ones.
        if (live < most && !all.get(live).isData() && isIndexed)
            while (all.get(most - 1).isData()) most--;
        for (int next = most; next > live; next--)
            // Large cells are not seen before their rows are.
            if (next == all.size() || !all.get(next).isData() || !all.get(next).within())
                return next;
        return most;
    }

    /** From here on entries without a row are not swept, and nothing is purged. */
    private synchronized void beginArriving() throws IOException {
        checkOpen();
        if (ingested || arriving) return;
        verify();
        store.filesBegin();
        arriving = true;
        told = System.nanoTime();
    }

    private static List<Path> paths(List<Staged> of, boolean isData) {
        return of.stream().filter(file -> file.isData() == isData).map(Staged::path).toList();
    }

    private void end() {
        if (!arriving) return;
        arriving = false;
        if (tried && !ingested) store.streamAbandoned();
        store.filesEnd();
    }

    @Override
    public void prepare() throws IOException {
        beginArriving();
        boolean isPrepared = false;
        while (!isPrepared) {
            awaitRoom();
            // The step itself would wait for them under the table's lock.
            isPrepared = (!refused || takesWrites()) && hasAddedTerms();
        }
        sync();
    }

    /** Syncs the files that are to be live next: where that is done, the table is locked. */
    private synchronized void sync() {
        checkOpen();
        List<Staged> all = Objects.requireNonNull(files);
        sync(all, next(all, isIndexed()));
    }

    private void sync(List<Staged> all, int end) {
        for (; synced < end; synced++) {
            checkOpen();
            Path file = all.get(synced).path();
            // A use of the database: TRUNCATE and DROP delete the file once there is none.
            store.reopenable()
                    .maintain(
                            database -> {
                                try (FileChannel channel =
                                        FileChannel.open(file, StandardOpenOption.WRITE)) {
                                    channel.force(true);
                                } catch (ClosedByInterruptException e) {
                                    // No error of the disk, at which a node may stop.
                                    throw interrupted(e);
                                } catch (IOException e) {
                                    throw new FSWriteError(e, file);
                                }
                            });
        }
    }

    /** How many files are synced. */
    synchronized int synced() {
        return synced;
    }

    private boolean isIndexed() {
        return !store.catalog().indexes().isEmpty();
    }

    /**
     * Adds the entries of the rows that are to be live next, while readers, writers and whoever
     * alters the table go on.
     *
     * @return false if the store takes none now; those that were added stay
     */
    private synchronized boolean hasAddedTerms() throws IOException {
        checkOpen();
        if (ingested) return true;
        // Asked once: a step of a table without indexes may have large cells and their rows, and
        // an index that is defined now finds the large ones nowhere yet. Its step comes again.
        if (!isIndexed()) return true;
        List<Staged> all = Objects.requireNonNull(files);
        List<Path> data = paths(all.subList(live, next(all, true)), true);
        try {
            if (!data.isEmpty()) terms.add(data);
            return true;
        } catch (WriteStallException e) {
            pause(e);
            return false;
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    private void awaitRoom() {
        checkOpen();
        long probed = System.nanoTime();
        while (!ingester.hasRoom()) {
            LockSupport.parkNanos(PAUSE_NANOS);
            checkOpen();
            if (System.nanoTime() - probed < PROBE_EVERY_NANOS) continue;
            probed = System.nanoTime();
            // A compaction that has failed does not go on, and RocksDB refuses writes then.
            if (takesWrites())
                tell(
                        "Compaction of the table is behind; if this goes on, the disk or"
                                + " compaction_throughput is too slow for what comes.");
        }
    }

    /** Says now and then why the stream waits. */
    private void tell(@Nullable String reason) {
        if (System.nanoTime() - told < tellEveryNanos) return;
        told = System.nanoTime();
        logger.info(
                "A stream into {} waits, and goes on by itself when that is over. {}",
                store.name(),
                reason);
    }

    /** Whether a write is taken now; throws what writes fail with otherwise. */
    private boolean takesWrites() {
        try {
            store.reopenable().maintain(database -> store.catalog().probe());
            return true;
        } catch (WriteStallException e) {
            pause(e);
            return false;
        }
    }

    /**
     * While compaction is behind, a write may have to wait for longer than it may: a stream, which
     * has come over hours, tries again.
     *
     * @throws WriteStallException if that is not why it failed
     */
    private void pause(WriteStallException e) {
        if (!store.reopenable().isWritable()) throw e;
        logger.debug("A stream into {} waits, and so do writes", store.name(), e);
        tell(e.getMessage());
        LockSupport.parkNanos(PAUSE_NANOS);
    }

    void checkOpen() {
        if (closed) throw new IllegalStateException("This stream is closed.");
        store.reopenable().checkOpen();
        // It would wait without a pause from now on.
        if (Thread.currentThread().isInterrupted()) throw interrupted(null);
    }

    /** No interrupt among the causes: Cassandra would not end the session. */
    private IllegalStateException interrupted(@Nullable ClosedByInterruptException cause) {
        return new IllegalStateException(
                "A stream into %s was interrupted. Repeat the operation that streams."
                        .formatted(store.name()),
                cause);
    }

    boolean isClosed() {
        return closed;
    }

    @Override
    public void close() {
        closed = true;
        deleteStaged();
    }

    /** Deletes the staged files that are not live, but for those that the store may need. */
    synchronized void deleteStaged() {
        end();
        try (var staged = Files.newDirectoryStream(directory)) {
            boolean isEmpty = true;
            for (Path file : staged)
                if (ingester.mayNeed(file)) isEmpty = false;
                else Files.deleteIfExists(file);
            if (isEmpty) Files.deleteIfExists(directory);
        } catch (NoSuchFileException e) {
            logger.debug("{} is deleted already", directory, e);
        } catch (IOException | DirectoryIteratorException e) {
            logger.warn(
                    "Files of a stream in {} cannot be deleted now; they are deleted when the node"
                            + " is restarted",
                    directory,
                    e);
        }
    }
}
