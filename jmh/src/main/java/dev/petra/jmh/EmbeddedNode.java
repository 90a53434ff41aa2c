// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.file.Path;
import java.util.List;
import java.util.function.LongSupplier;
import org.apache.cassandra.cache.ChunkCache;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.ConsistencyLevel;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.service.CassandraDaemon;

/** The node that runs in this JVM, whose options {@link Nodes} made. */
final class EmbeddedNode {
    private EmbeddedNode() {}

    /**
     * Starts the node, which can be done once in a JVM, and makes the workload's table if it is not
     * there.
     */
    static ColumnFamilyStore start(Workload workload, String memtable) {
        CassandraDaemon.main(new String[0]);
        query(workload.createKeyspace(1));
        query(workload.createTable("memtable = '" + memtable + "'"));
        return Keyspace.open(Workload.KEYSPACE).getColumnFamilyStore("t");
    }

    private static void query(String cql) {
        QueryProcessor.process(cql, ConsistencyLevel.ONE);
    }

    /** What compaction may write in a second, in bytes, where the settings have 0 for all. */
    static long compactionThroughput() {
        long bytes = (long) DatabaseDescriptor.getCompactionThroughputBytesPerSec();
        return bytes == 0 ? Long.MAX_VALUE : bytes;
    }

    /**
     * Fails if the node has another chunk cache than it is to have.
     *
     * @param mebibytes how large it is to be
     */
    static void requireChunkCache(int mebibytes) {
        ChunkCache cache = ChunkCache.instance;
        if (cache == null || cache.capacity() != (long) mebibytes << 20)
            throw new IllegalStateException(
                    "the chunk cache has %s bytes, not %d MiB"
                            .formatted(cache == null ? "no" : cache.capacity(), mebibytes));
    }

    /**
     * @param stalledNanos for how long the engine took no writes, since it began
     */
    static Probe probe(LongSupplier stalledNanos) {
        return new Probe(
                List.of(
                        new Probe.Watched(
                                ProcessHandle.current().pid(),
                                Path.of(System.getProperty("cassandra.storagedir")),
                                stalledNanos)));
    }
}
