// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.nio.ByteBuffer;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DecoratedKey;

/** Reads the rows of entries for a sweep. */
@FunctionalInterface
public interface SweepCheck {
    /**
     * Whether the row has the term now, or may have it: for the store, by what {@link
     * dev.petra.engine.TableStore#readAside} gives, nothing purged. Writes of the partition may
     * wait for it; must not write to the store, which may wait for the sweep. May be asked more
     * than once for an entry.
     */
    boolean isConfirmed(ByteBuffer term, DecoratedKey key, Clustering<?> clustering);

    /** Called once for each entry when it was looked at. */
    default void looked(boolean isRemoved) {}

    /**
     * Whether a sweep that was ended early is to go on: the engine then need not look again at what
     * a sweep of the same incarnation of the index has looked at, since the store was opened and
     * the last sweep of the whole index. Otherwise a sweep looks at all entries.
     */
    default boolean goesOn() {
        return false;
    }

    /**
     * Called at the begin and after some entries, while nothing is held: may wait, and so pace the
     * sweep, or throw to end it.
     */
    default void pause() {}
}
