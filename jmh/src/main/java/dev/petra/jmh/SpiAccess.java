// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.legacy.LegacyStore;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.jspecify.annotations.Nullable;

/**
 * A store behind the SPI. Cassandra's own is the one that a node has, so that its log, flushes and
 * compactions are a node's; RocksDB's is beside the node's tables.
 */
final class SpiAccess implements Access {
    private final Workload workload;
    private final ColumnFamilyStore cfs;
    private final Requests requests;
    private final @Nullable StorageEngine engine;
    private final TableStore store;

    /** Of RocksDB's store. */
    private volatile boolean compacting = true;

    SpiAccess(Engine engine, Workload workload, int nativeMiB) {
        this.workload = workload;
        // Not in the node's engine: the store is opened here.
        this.cfs = EmbeddedNode.start(workload, Engine.LEGACY.memtable());
        this.requests = new Requests(workload, cfs.metadata());
        if (engine != Engine.ROCKS) {
            this.engine = null;
            this.store = LegacyStore.of(cfs);
            return;
        }
        this.engine = engine(engine, nativeMiB);
        this.store =
                this.engine.openStore(
                        new StoreSpec(
                                Path.of(System.getProperty("cassandra.storagedir"), "spi"),
                                cfs.name,
                                1,
                                cfs.metadata,
                                () -> false,
                                () -> compacting));
    }

    /** One whose log and compactions are as the node's. */
    static StorageEngine engine(Engine engine, int nativeMiB) {
        StorageEngine opened =
                StorageEngines.open(
                        engine.label(), new EngineSettings(Map.of("memory", nativeMiB + "MiB")));
        opened.walSync(WalSync.PERIODIC, Duration.ofSeconds(10));
        opened.compactionThroughput(EmbeddedNode.compactionThroughput());
        return opened;
    }

    @Override
    public void write(long number, int version) {
        store.write(requests.update(number, version));
    }

    @Override
    public long read(long number) {
        ReadCheck check = new ReadCheck(workload, number);
        DecoratedKey key = requests.key(number);
        try (UnfilteredRowIterator rows = store.read(key, Slices.ALL, requests.filter, false)) {
            if (rows != null) Requests.check(rows.partitionKey(), key);
            while (rows != null && check.takesMore() && rows.hasNext()) {
                Unfiltered next = rows.next();
                if (next.isRow()) requests.check((Row) next, check);
            }
        }
        return check.end();
    }

    @Override
    public long scan() {
        long there = workload.written().there();
        long count = 0;
        try (UnfilteredPartitionIterator partitions =
                store.scan(DataRange.allData(cfs.getPartitioner()), requests.filter)) {
            while (partitions.hasNext())
                try (UnfilteredRowIterator rows = partitions.next()) {
                    while (rows.hasNext()) if (rows.next().isRow()) count++;
                }
        }
        workload.checkScan(there, count);
        return count;
    }

    @Override
    public void flush() {
        store.flush();
    }

    @Override
    public void settle() {
        if (engine == null) LocalAccess.settle(cfs);
        else store.compact(List.of());
    }

    @Override
    public void compacting(boolean automatic) {
        if (engine == null) LocalAccess.compacting(cfs, automatic);
        else compacting = automatic;
    }

    @Override
    public Probe probe() {
        return EmbeddedNode.probe(
                () ->
                        engine == null
                                ? 0
                                : engine.metrics().getOrDefault(Probe.STALL_METRIC, 0L) * 1000);
    }

    @Override
    public void close() {
        store.close();
        if (engine != null) engine.close();
    }
}
