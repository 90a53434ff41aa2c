// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import java.util.Collection;
import java.util.List;
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

/** A host for any Cassandra, of which nothing else is asked. */
public final class HostThatFits implements Host {
    @Override
    public boolean fits() {
        return true;
    }

    @Override
    public Set<String> userKeyspaces() {
        return Set.of();
    }

    @Override
    public @Nullable KeyspaceMetadata keyspace(String name) {
        return null;
    }

    @Override
    public @Nullable Keyspace loadedKeyspace(String name) {
        return null;
    }

    @Override
    public @Nullable TableMetadata table(TableId id) {
        return null;
    }

    @Override
    public @Nullable TableMetadata table(String keyspace, String name) {
        return null;
    }

    @Override
    public void addListener(SchemaChangeListener listener) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void betweenSchemaChanges(Runnable action) {
        action.run();
    }

    @Override
    public boolean hasTransientReplicas(KeyspaceMetadata keyspace) {
        return false;
    }

    @Override
    public boolean hasPendingRanges(String keyspace) {
        return false;
    }

    @Override
    public Collection<Range<Token>> ownAndPendingRanges(String keyspace) {
        return List.of();
    }

    @Override
    public boolean refusesOtherRanges() {
        return false;
    }

    @Override
    public Token lastToken(IPartitioner partitioner) {
        throw new UnsupportedOperationException();
    }
}
