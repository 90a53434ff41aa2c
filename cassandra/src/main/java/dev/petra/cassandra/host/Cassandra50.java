// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import java.util.Collection;
import java.util.Set;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.Schema;
import org.apache.cassandra.schema.SchemaChangeListener;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;

/** Cassandra 5.0. */
public final class Cassandra50 implements Host {
    /** The next major release has cluster metadata in its place. */
    private static final String ITS_OWN = "org/apache/cassandra/locator/TokenMetadata.class";

    /** For the service loader. */
    public Cassandra50() {}

    @Override
    public boolean fits() {
        return Cassandra50.class.getClassLoader().getResource(ITS_OWN) != null;
    }

    @Override
    public Set<String> userKeyspaces() {
        return Schema.instance.getUserKeyspaces();
    }

    @Override
    public @Nullable KeyspaceMetadata keyspace(String name) {
        return Schema.instance.getKeyspaceMetadata(name);
    }

    @Override
    public @Nullable Keyspace loadedKeyspace(String name) {
        return Schema.instance.getKeyspaceInstance(name);
    }

    @Override
    public @Nullable TableMetadata table(TableId id) {
        return Schema.instance.getTableMetadata(id);
    }

    @Override
    public @Nullable TableMetadata table(String keyspace, String name) {
        return Schema.instance.getTableMetadata(keyspace, name);
    }

    @Override
    public void addListener(SchemaChangeListener listener) {
        Schema.instance.registerListener(listener);
    }

    /** Changes are applied under this lock. */
    @Override
    public void betweenSchemaChanges(Runnable action) {
        synchronized (Schema.instance) {
            action.run();
        }
    }

    @Override
    public boolean hasTransientReplicas(KeyspaceMetadata keyspace) {
        return keyspace.createReplicationStrategy().hasTransientReplicas();
    }

    @Override
    public boolean hasPendingRanges(String keyspace) {
        return !StorageService.instance
                .getTokenMetadata()
                .getPendingRanges(keyspace, FBUtilities.getBroadcastAddressAndPort())
                .isEmpty();
    }

    @Override
    public Collection<Range<Token>> ownAndPendingRanges(String keyspace) {
        return StorageService.instance.getLocalAndPendingRanges(keyspace);
    }

    @Override
    public boolean refusesOtherRanges() {
        return DatabaseDescriptor.getRejectOutOfTokenRangeRequests();
    }

    @Override
    public Token lastToken(IPartitioner partitioner) {
        return partitioner.getMaximumToken();
    }
}
