// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.engine.stream.StreamSource;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The unfinished streams out of the stores of one table, and what they forbid. SSTables that are
 * being sent keep what they hold; a store that is read to be sent goes on living. So, until a
 * stream is finished:
 *
 * <ul>
 *   <li>no deletion is purged that was not purgeable yet when the stream began, by the {@code
 *       gc_grace_seconds} of then: else a receiver that has what it hides may never get it;
 *   <li>no deletion at all if SSTables of the same table are sent as well: these may hold what a
 *       deletion in the store hides, even if both are gone here when the store is read;
 *   <li>{@code nodetool cleanup} does not go unnoticed if it removes what the stream is to send.
 * </ul>
 *
 * <p>Thread-safe.
 */
public final class StreamGuards {
    private static final Logger logger = LoggerFactory.getLogger(StreamGuards.class);

    private final LongSupplier pastGrace;

    /** Guarded by this. */
    private final Set<Guard> unfinished = new HashSet<>();

    /** Those that hold a store; guarded by this. */
    private final Set<Guard> holding = new HashSet<>();

    /** What the cleanups that run now keep; guarded by this. */
    private final List<List<Range<Token>>> cleanups = new ArrayList<>();

    /**
     * @param pastGrace before which local time, in seconds since 1970, deletions are past their
     *     grace by now
     */
    public StreamGuards(LongSupplier pastGrace) {
        this.pastGrace = pastGrace;
    }

    /**
     * A stream begins: to be called before its SSTables are pinned. Until {@link
     * Guard#withoutSSTables} it counts as one that has some.
     *
     * @param ranges what it sends
     * @param ended whether its session has ended: nobody reads the stream any more then, although
     *     Cassandra may have forgotten to finish it
     */
    public Guard begin(Collection<Range<Token>> ranges, BooleanSupplier ended) {
        // Else sessions that Cassandra forgot would hold stores until these are dropped.
        releaseEnded();
        synchronized (this) {
            // Under the lock, so that no earlier answer of gcBefore is later than this, unless
            // gc_grace has grown since or the clock was set back.
            Guard guard = new Guard(Range.normalize(ranges), pastGrace.getAsLong(), ended);
            cleanups.forEach(guard::cleanup);
            unfinished().add(guard);
            return guard;
        }
    }

    /**
     * Whether a deletion may be purged at all.
     *
     * @param otherwise whether it may if there are no streams: not while the table has SSTables
     */
    public boolean mayPurge(BooleanSupplier otherwise) {
        // First: SSTables that are gone by then, and are sent, were pinned before, by a stream that
        // is known.
        boolean may = otherwise.getAsBoolean();
        synchronized (this) {
            return unfinished().stream().noneMatch(guard -> guard.besideSSTables) && may;
        }
    }

    /** Before which local time a deletion may be purged now. */
    public synchronized long gcBefore() {
        long now = pastGrace.getAsLong();
        return Math.min(
                now, unfinished().stream().mapToLong(guard -> guard.gcBefore).min().orElse(now));
    }

    /** Lets go of the stores that streams hold whose sessions have ended. */
    public void releaseEnded() {
        List<Guard> ended;
        synchronized (this) {
            ended = holding.stream().filter(guard -> guard.ended.getAsBoolean()).toList();
        }
        // Not under the lock: it waits for the blocks that are being read.
        for (Guard guard : ended)
            try {
                guard.close();
            } catch (RuntimeException e) {
                // The caller has another store to read or to delete.
                logger.warn(
                        "The store that a stream read could not be released at the stream's end;"
                                + " its memory and its files may be kept until the node is"
                                + " restarted",
                        e);
            }
    }

    private Set<Guard> unfinished() {
        unfinished.removeIf(guard -> guard.ended.getAsBoolean());
        return unfinished;
    }

    /**
     * Removes what is not kept. Streams of that fail, also those that begin meanwhile.
     *
     * @param removal blocks until it is removed
     */
    public void cleanup(List<Range<Token>> kept, Runnable removal) {
        synchronized (this) {
            cleanups.add(kept);
            unfinished.forEach(guard -> guard.cleanup(kept));
        }
        try {
            removal.run();
        } finally {
            synchronized (this) {
                cleanups.remove(kept);
            }
        }
    }

    /** The guard of one stream. */
    public final class Guard implements AutoCloseable {
        private final List<Range<Token>> ranges;

        /** What may be purged until the stream is finished. */
        private final long gcBefore;

        private final BooleanSupplier ended;
        private boolean besideSSTables = true;
        private @Nullable StreamSource source;
        private volatile boolean cleaned;

        private Guard(List<Range<Token>> ranges, long gcBefore, BooleanSupplier ended) {
            this.ranges = ranges;
            this.gcBefore = gcBefore;
            this.ended = ended;
        }

        /** Says that all the stream sends is in the store. */
        public void withoutSSTables() {
            synchronized (StreamGuards.this) {
                besideSSTables = false;
            }
        }

        /** What the stream reads, and holds: it is closed with this, if not before. */
        public void holds(StreamSource held) {
            synchronized (StreamGuards.this) {
                source = held;
                holding.add(this);
            }
        }

        private void cleanup(List<Range<Token>> kept) {
            if (!Range.subtract(ranges, kept).isEmpty()) cleaned = true;
        }

        /**
         * To be called behind each reading of the store.
         *
         * @throws IllegalStateException if a cleanup may have removed some of it before it was read
         */
        public void check() {
            if (cleaned)
                throw new IllegalStateException(
                        "'nodetool cleanup' removed ranges that a stream was to send: repeat the"
                                + " operation that streams");
        }

        /** The store is not read any more. Idempotent. */
        @Override
        public void close() {
            StreamSource held;
            synchronized (StreamGuards.this) {
                unfinished.remove(this);
                holding.remove(this);
                held = source;
            }
            if (held != null) held.close();
        }
    }
}
