// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;

/**
 * The indexes of one store. Every method is thread-safe, throws {@link IllegalStateException} once
 * the store is closed, and fails as the store's own reads and writes do. Definitions, states and
 * entries survive a restart and a crash as rows do, and are in a checkpoint.
 *
 * <p>A method that names an index which is not defined throws {@link IllegalArgumentException},
 * unless it says otherwise.
 */
public interface TermIndexes {
    /** How far an index is. */
    enum State {
        /** It may lack rows that were there before it was defined. */
        BUILDING,
        /** Whoever built it says that it lacks none. */
        BUILT
    }

    /** The indexes that are defined. Never blocks, and makes nothing: each write asks. */
    Map<UUID, State> states();

    /**
     * The indexes that are not defined because their entries were damaged, since the store was
     * opened; see {@link DamagedIndexException}. Not one that was defined again since. Never
     * blocks.
     */
    Set<UUID> lost();

    /**
     * Tells one definition of an index from another: a number that was never given to an earlier
     * one, however often it was dropped and defined again. Never blocks.
     */
    long incarnation(UUID index);

    /**
     * Defines an index, {@link State#BUILDING}, or leaves it as it is if it is defined. Durable
     * when it returns; every write that begins after that may have its entries. An index that was
     * dropped may be defined again, and is empty then.
     */
    void define(UUID index);

    /**
     * Says that a build of an index begins: it is {@link State#BUILDING}, durably when this
     * returns. Ends the effect of every build that began before; see {@link #setBuilt}.
     *
     * <p>Whoever writes rows without the entries of a defined index calls this first. Cheap where
     * the index is being built.
     *
     * @return the number of the build, greater than that of any build that began before in this
     *     process
     */
    long setBuilding(UUID index);

    /**
     * Says that a build has added the entries of all rows: the index is {@link State#BUILT}.
     * Durable when it returns, and with it all that was added before. Does nothing if the index was
     * dropped since the build began, also if it was defined again, or if another build began, or if
     * the store was opened anew.
     *
     * @param build of {@link #setBuilding}
     * @return whether the index is built now; never an exception for an index that is not defined
     */
    boolean setBuilt(UUID index, long build);

    /**
     * Drops an index and its entries. Durable when it returns: a crash on the way may leave the
     * index as it was, or undefined and the rest removed when the store is opened next; so may an
     * exception, after which {@link #removeLeft} removes the rest. Idempotent; nothing if it was
     * never defined.
     */
    void drop(UUID index);

    /**
     * Removes the entries that a {@link #drop} which failed has left of an index that is not
     * defined any more. Cheap where there are none; idempotent.
     */
    default void removeLeft() {}

    /**
     * How entries are derived of rows that come by {@link dev.petra.engine.TableStore#receive}:
     * they are there before the rows are. Until it is set, after each opening, a store with a
     * defined index refuses to receive, by {@link IllegalArgumentException}.
     */
    void deriveBy(TermFunction function);

    /**
     * Adds entries of rows of one partition that are in the store, all or none. As durable as a
     * write that the engine's sync mode does not wait for; see {@link #setBuilt}. Entries of an
     * index that was dropped are ignored, as in a write.
     *
     * <p>A row that comes is written with its entries instead: a {@link #sweep} takes what no row
     * confirms.
     */
    void add(DecoratedKey key, List<TermEntry> entries);

    /**
     * Opens the entries with terms within bounds.
     *
     * @param from null for no lower bound
     * @param to null for no upper bound
     * @return what the caller closes
     */
    TermCursor scan(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive);

    /**
     * Removes entries that no row confirms. An entry that is written again meanwhile, with its row,
     * stays, and so may those of a partition that is written all the time, and of a small share of
     * the others with it. Ends early where the index is dropped; one sweep of a store at a time,
     * others wait.
     *
     * @return how many it removed
     * @throws java.util.concurrent.CancellationException if it meets an entry while files of a
     *     stream are about to go live: entries may be there before their rows. Those before that
     *     one may have been removed
     */
    long sweep(UUID index, SweepCheck check);

    /**
     * About how many entries have terms within bounds, in memory and on disk: for whoever chooses
     * between indexes. May be far off where there are few. Reads no entries.
     *
     * @param from null for no lower bound
     * @param to null for no upper bound
     */
    long entries(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive);

    /** About how much the index takes, in bytes, in memory and on disk. Reads no entries. */
    long bytes(UUID index);
}
