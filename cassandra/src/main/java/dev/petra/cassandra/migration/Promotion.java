// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.index.StoreIndexes;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.table.EngineMemtables;
import dev.petra.cassandra.table.Generation;
import dev.petra.cassandra.table.PurgeGate;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.cassandra.table.WriteStalls;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.BooleanSupplier;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.compaction.TimeWindowCompactionStrategy;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Takes what a table's shadow has into the table's store, in place of its SSTables, which nobody
 * reads then. {@code docs/shadow-design.md} says why nothing is lost by it, and nothing comes back.
 *
 * <p>Until the SSTables are given up, in one transaction, all that is in the store is in them as
 * well, and shows and hides the same. So whatever goes wrong before, {@link MigrateIn} migrates
 * them as if there had been no shadow.
 */
final class Promotion {
    private static final Logger logger = LoggerFactory.getLogger(Promotion.class);

    /** What is read, staged and made live together, of whole tokens. */
    static final long SLICE_BYTES = Long.getLong("petra.promotion.slice_bytes", 256L << 20);

    /** How much is read between two looks whether it may go on, and the disk has room. */
    private static final long CHECKED_BYTES = 64L << 20;

    /** How long all SSTables are kept claimed for a stream to end. */
    private static final Duration STREAM_PATIENCE = Duration.ofMinutes(10);

    /** How long the table's store may take no index entries. */
    private static final Duration STALL_PATIENCE = Duration.ofMinutes(10);

    /** How often it finds that the shadow does not have them all yet. */
    private static final int MOST_INCOMPLETE = 60;

    /** How long writes that have ended in the table may take to be looked at. */
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    private final MigrateIn migration;
    private final ColumnFamilyStore cfs;
    private final TableGenerations stores;
    private final ShadowSource shadow;
    private final List<Range<Token>> ring;
    private long unchecked;
    private int incomplete;
    private int parts;

    Promotion(MigrateIn migration, ShadowSource shadow) {
        this.migration = migration;
        this.cfs = migration.cfs;
        this.stores = migration.stores;
        this.shadow = shadow;
        Token minimum = cfs.getPartitioner().getMinimumToken();
        this.ring = List.of(new Range<>(minimum, minimum));
    }

    /** Why the shadow is not what becomes of the table; the SSTables are migrated then. */
    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String reason) {
            super(reason);
        }

        Refused(String reason, Throwable cause) {
            super(reason, cause);
        }
    }

    /** Reads or writes the shadow or a part of it. */
    private interface OfShadow<T> {
        T run() throws IOException;
    }

    /** A shadow that cannot be read or written is none of the table's, whose SSTables are whole. */
    private static <T> T ofShadow(OfShadow<T> work) {
        try {
            return work.run();
        } catch (Refused e) {
            throw e;
        } catch (IOException | RuntimeException | FSError e) {
            throw unreadable(e);
        }
    }

    private static Refused unreadable(Throwable e) {
        return new Refused("it cannot be read, or not written anew: " + e.getMessage(), e);
    }

    /**
     * Goes on, while the table's memtable is the engine's.
     *
     * @return when to go on; null if it is over, because all is done or it cannot be. Then the
     *     shadow is of no use any more
     */
    @Nullable Duration step() {
        try {
            return tryStep();
        } catch (Refused e) {
            String refused =
                    "The shadow of {} does not become the table, whose SSTables are migrated: {}";
            if (e.getCause() == null) logger.info(refused, stores.displayName(), e.getMessage());
            else logger.warn(refused, stores.displayName(), e.getMessage(), e.getCause());
        } catch (RuntimeException | Error e) {
            // Who drops the table deletes the shadow, and does not wait.
            if (migration.isOver()) logger.debug("{} is over", migration, e);
            else {
                logger.warn(
                        "The shadow of {} could not become the table, whose SSTables are migrated",
                        stores.displayName(),
                        e);
                Migrations.inspect(e);
            }
        }
        return null;
    }

    private @Nullable Duration tryStep() {
        check();
        if (!EngineMemtables.areWritesOurs(cfs)) {
            migration.state("waiting for the flush of the former memtable");
            return Migration.SOON;
        }
        if (!mayPurge()) {
            migration.state("waiting for a stream of the table's SSTables");
            return Migration.SOON;
        }
        complete();
        if (migration.shown(this::claimAndTake)) return null;
        migration.state("waiting for a compaction of the table's SSTables, or for the shadow");
        return Migration.SOON;
    }

    /** Until all writes that did not begin in the engine are in the shadow. */
    private void complete() {
        shadow.seal();
        awaitLooked();
    }

    /** Until the shadow was told of all writes that had begun by now. */
    private void awaitLooked() {
        Keyspace.writeOrder.awaitNewBarrier();
        BooleanSupplier told = shadow.toldOfAll();
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        while (!told.getAsBoolean()) {
            check();
            if (System.nanoTime() - deadline > 0)
                throw new Refused("it does not keep up with the table's writes");
            pause(1);
        }
    }

    private static void pause(int millis) {
        try {
            TimeUnit.MILLISECONDS.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Refused("interrupted");
        }
    }

    private void check() {
        if (migration.isOver()) throw over();
        // Its files would each be of all windows, and none of them expire before all has.
        if (cfs.metadata().params.compaction.klass() == TimeWindowCompactionStrategy.class)
            throw new Refused("the table has time windows");
        if (migration.isHalted()) throw new Refused("it was stopped");
        String doubt = shadow.doubt();
        if (doubt != null) throw new Refused(doubt);
        // As one that is not repaired yet, which another replica may lack.
        if (PurgeGate.isForbidden(cfs))
            throw new Refused("the table keeps deletions whose grace has passed");
        // What came by a stream may be old, and nobody has looked at it.
        if (stores.ingests() > 0) throw new Refused("a stream came to the table's store");
    }

    /** Whether no stream forbids that deletions go which may hide what it brings or sends. */
    private boolean mayPurge() {
        return stores.streams().mayPurge(() -> true);
    }

    private static Refused streamed() {
        return new Refused("SSTables of the table are being streamed");
    }

    /** Of a stream that has begun since the SSTables were claimed. */
    private void awaitStreams() {
        long deadline = System.nanoTime() + STREAM_PATIENCE.toNanos();
        while (!mayPurge()) {
            check();
            if (System.nanoTime() - deadline > 0) throw streamed();
            pause(100);
        }
    }

    private static Refused over() {
        return new Refused(
                Migrations.areStopped()
                        ? "the node shuts down"
                        : "the table was altered or dropped");
    }

    private void check(ShadowSource.Moment moment) {
        if (moment.isBeyond(cfs.metadata(), FBUtilities.nowInSeconds()))
            throw new Refused(
                    "gc_grace_seconds of the table was shorter before, or the clock was ahead");
    }

    /**
     * False if somebody else has SSTables, or the shadow does not have all of them yet. Compactions
     * are waited for, however long: writes bring no SSTables any more, so they come to an end.
     */
    private boolean claimAndTake() {
        Set<SSTableReader> all = cfs.getLiveSSTables();
        if (all.isEmpty()) throw new Refused("there is nothing in SSTables");
        for (SSTableReader sstable : all)
            if (sstable.getSSTableMetadata().hasLegacyCounterShards)
                throw new Refused("SSTables have counts from before Cassandra 2.1");
        try (LifecycleTransaction claimed =
                cfs.getTracker().tryModify(all, OperationType.RELOCATE)) {
            if (claimed == null || !cfs.getLiveSSTables().equals(all) || !mayPurge()) return false;
            if (!shadow.freeze(all)) {
                if (++incomplete > MOST_INCOMPLETE)
                    throw new Refused("it does not have all of the table");
                return false;
            }
            check();
            take(all, claimed);
            return true;
        }
    }

    private void take(Set<SSTableReader> all, LifecycleTransaction claimed) {
        long began = System.nanoTime();
        long before = migration.doneBytes();
        // As of now: nobody compacts the SSTables any more.
        ShadowSource.Moment moment = shadow.moment();
        check(moment);
        Generation generation = stores.current();
        checkRoom(ofShadow(() -> shadow.store().statistics().diskBytes()));
        DecoratedKey last = null;
        while (true) {
            check();
            checkRoom(2 * SLICE_BYTES);
            migration.state("taking in the shadow");
            DecoratedKey next = takePart(generation, moment, last);
            if (next == null) break;
            last = next;
        }
        generation.writable().syncLog();
        // Of what is purged, the commit log may have what was deleted and not its deletion. The
        // SSTables say that neither is to be replayed, as long as they are there.
        if (!migration.passCommitLog(() -> {})) throw over();
        if (!giveUp(all, claimed, generation, moment)) throw over();
        logger.info(
                "The shadow of {} is in the table's store: {} bytes in {} parts, in {} ms; {}"
                        + " SSTables were given up unread",
                stores.displayName(),
                migration.doneBytes() - before,
                parts,
                TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - began),
                all.size());
    }

    private void checkRoom(long bytes) {
        Path place = stores.tableDirectory();
        String lack = place == null ? null : shadow.lackOfRoom(place, bytes, 2 * SLICE_BYTES);
        if (lack != null) throw new Refused(lack);
    }

    /**
     * Takes in the partitions that come next.
     *
     * @param after null for the first ones
     * @return the last of them; null if there is none
     */
    private @Nullable DecoratedKey takePart(
            Generation generation, ShadowSource.Moment moment, @Nullable DecoratedKey after) {
        TableStore part = ofShadow(() -> shadow.openPart(++parts));
        try {
            PurgedPart read =
                    ofShadow(
                            () ->
                                    PurgedPart.read(
                                            shadow.store(),
                                            part,
                                            moment,
                                            after,
                                            SLICE_BYTES,
                                            this::progress));
            if (read.bytes() > 0) ingest(part, read.bytes(), generation);
            return read.last();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            var unused =
                    ofShadow(
                            () -> {
                                shadow.drop(part);
                                return true;
                            });
        }
    }

    /**
     * Called with what was read and written. A single partition may be many times as large as a
     * part.
     */
    private void progress(long bytes) {
        if (migration.isHalted()) throw new Refused("it was stopped");
        migration.moved(bytes);
        look(bytes);
    }

    private void look(long bytes) {
        unchecked += bytes;
        if (unchecked < CHECKED_BYTES) return;
        unchecked = 0;
        check();
        checkRoom(2 * SLICE_BYTES);
    }

    private void ingest(TableStore part, long bytes, Generation generation) throws IOException {
        TableStore into = generation.writable();
        StoreIndexes.deriveBy(cfs, into);
        try (StreamSource source =
                        ofShadow(() -> part.send(List.of(new SliceRanges(ring, bytes))));
                StreamSink sink = into.receive(head(source.head()), ring)) {
            stage(source, sink);
            sink.verify();
            do prepare(sink);
            while (makeLive(sink, generation));
        }
    }

    private void prepare(StreamSink sink) {
        AtomicLong stalled = new AtomicLong();
        WriteStalls.sitOut(
                () -> {
                    try {
                        sink.prepare();
                    } catch (IOException e) {
                        throw new UncheckedIOException(e);
                    }
                },
                stall -> {
                    long now = System.nanoTime();
                    stalled.compareAndSet(0, now);
                    if (stall.isDiskFull() || now - stalled.get() > STALL_PATIENCE.toNanos())
                        throw stall;
                    progress(0);
                });
    }

    /** As if a peer had sent it: beside the table it has another name. */
    private StreamHead head(StreamHead of) {
        return new StreamHead(
                of.engine(), of.format(), of.table(), cfs.name, of.slices(), of.bytes());
    }

    private void stage(StreamSource source, StreamSink sink) throws IOException {
        try (SliceReader reader = ofShadow(() -> source.open(0));
                SliceWriter writer = sink.begin(0)) {
            while (true) {
                ByteBuffer block = next(reader);
                if (block == null) break;
                if (migration.isHalted()) throw new Refused("it was stopped");
                look(block.remaining());
                writer.take(block);
            }
            writer.end();
        }
    }

    private static @Nullable ByteBuffer next(SliceReader reader) {
        try {
            return reader.next();
        } catch (IOException | RuntimeException | FSError e) {
            throw unreadable(e);
        }
    }

    /** Whether there is more. */
    private boolean makeLive(StreamSink sink, Generation generation) {
        check();
        AtomicBoolean isMore = new AtomicBoolean();
        boolean isDone =
                stores.migration()
                        .step(
                                migration.number,
                                () -> {
                                    if (stores.current() != generation)
                                        throw new Refused("the table was truncated");
                                    try {
                                        isMore.set(sink.ingest());
                                    } catch (IOException e) {
                                        throw new UncheckedIOException(e);
                                    }
                                });
        if (!isDone) throw over();
        return isMore.get();
    }

    /** Gives the SSTables up. False if this is not the table's migration any more. */
    private boolean giveUp(
            Set<SSTableReader> all,
            LifecycleTransaction claimed,
            Generation generation,
            ShadowSource.Moment moment) {
        awaitStreams();
        // What was written before is looked at: it must not show by this.
        awaitLooked();
        stores.lockContent();
        try {
            return stores.migration()
                    .step(
                            migration.number,
                            () -> {
                                check();
                                check(moment);
                                if (!mayPurge()) throw streamed();
                                // An ALTER may have been under way at that moment.
                                check(shadow.moment());
                                if (stores.current() != generation)
                                    throw new Refused("the table was truncated");
                                // Nobody has looked at what came meanwhile.
                                if (!cfs.getLiveSSTables().equals(all))
                                    throw new Refused("SSTables came meanwhile");
                                claimed.obsoleteOriginals();
                                claimed.finish();
                            });
        } finally {
            stores.unlockContent();
        }
    }

    /** About how many bytes are to be taken in yet. */
    long bytesLeft() {
        try {
            return Math.max(0, shadow.store().statistics().liveDataBytes() - migration.doneBytes());
        } catch (IllegalStateException e) {
            logger.debug("The shadow of {} has just ended", stores.displayName(), e);
            return 0;
        }
    }
}
