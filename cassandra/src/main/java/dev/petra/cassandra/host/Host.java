// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import java.util.Collection;
import java.util.Set;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * A Cassandra, as far as its major releases differ in what this module asks of them. Thread-safe.
 * Nothing here is asked for each row, read or write. {@link java.util.ServiceLoader} finds the
 * implementations.
 */
public interface Host {
    /** The one for the Cassandra of this process, which does not change. */
    static Host current() {
        return Hosts.CURRENT;
    }

    /**
     * Whether this is for the Cassandra of this process. It goes by the classes that are there: a
     * fork may call its releases what it likes. Loads none of them.
     */
    boolean fits();

    // The schema

    /** The names of all keyspaces but Cassandra's own and virtual ones, as they are now. */
    Set<String> userKeyspaces();

    /** A keyspace, also a virtual one, or null if there is none of that name. */
    @Nullable KeyspaceMetadata keyspace(String name);

    /** Null while the keyspace is being loaded, which {@code Keyspace.open} would do once more. */
    @Nullable Keyspace loadedKeyspace(String name);

    /** A table, or null if the schema does not have it. */
    @Nullable TableMetadata table(TableId id);

    /** A table, also a virtual one, or null if there is none of that name. */
    @Nullable TableMetadata table(String keyspace, String name);

    /** Has a listener told of each change from now on, after it was applied. */
    void addListener(SchemaChangeListener listener);

    /**
     * Runs something at a time when no change is half applied: it sees a table and the table's
     * metadata as they belong together. May wait for a change, and changes wait for it.
     */
    void betweenSchemaChanges(Runnable action);

    /** Whether some replicas of a keyspace have only data that was not repaired yet. */
    boolean hasTransientReplicas(KeyspaceMetadata keyspace);

    // The ring

    /** Whether this node is about to get ranges of a keyspace. */
    boolean hasPendingRanges(String keyspace);

    /** The ranges of a keyspace that this node has or is about to get. */
    Collection<Range<Token>> ownAndPendingRanges(String keyspace);

    /** Whether streams of data outside of these ranges are refused. */
    boolean refusesOtherRanges();

    /**
     * The last token of the ring.
     *
     * @throws UnsupportedOperationException if the partitioner has none
     */
    Token lastToken(IPartitioner partitioner);
}
