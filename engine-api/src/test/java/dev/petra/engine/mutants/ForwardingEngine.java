// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.BackgroundTask;
import dev.petra.engine.EngineStatistics;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableParams;

/** An engine that does what another does, with something done to each store that is opened. */
public class ForwardingEngine implements StorageEngine {
    final StorageEngine engine;
    private final UnaryOperator<TableStore> mutation;

    /**
     * Makes one of another, which it owns.
     *
     * @param mutation of each store
     */
    public ForwardingEngine(StorageEngine engine, UnaryOperator<TableStore> mutation) {
        this.engine = engine;
        this.mutation = mutation;
    }

    @Override
    public String name() {
        return engine.name();
    }

    @Override
    public TableStore openStore(StoreSpec spec) {
        return mutation.apply(engine.openStore(spec));
    }

    @Override
    public void copyStore(Path source, StoreSpec spec) {
        engine.copyStore(source, spec);
    }

    @Override
    public void checkFormat(Path directory) {
        engine.checkFormat(directory);
    }

    @Override
    public void deleteStore(Path directory) {
        engine.deleteStore(directory);
    }

    @Override
    public void walSync(WalSync mode, Duration interval) {
        engine.walSync(mode, interval);
    }

    @Override
    public void syncAcknowledged(Predicate<TableId> tables) {
        engine.syncAcknowledged(tables);
    }

    @Override
    public void compactionThroughput(long bytesPerSecond) {
        engine.compactionThroughput(bytesPerSecond);
    }

    @Override
    public List<String> reservations(TableParams table) {
        return engine.reservations(table);
    }

    @Override
    public Map<String, String> settingsInForce() {
        return engine.settingsInForce();
    }

    @Override
    public String version() {
        return engine.version();
    }

    @Override
    public boolean hasIndexes() {
        return engine.hasIndexes();
    }

    @Override
    public int streamFormat() {
        return engine.streamFormat();
    }

    @Override
    public long sliceBytes() {
        return engine.sliceBytes();
    }

    @Override
    public EngineStatistics statistics() {
        return engine.statistics();
    }

    @Override
    public Map<String, Long> metrics() {
        return engine.metrics();
    }

    @Override
    public List<BackgroundTask> backgroundTasks() {
        return engine.backgroundTasks();
    }

    @Override
    public void close() {
        engine.close();
    }
}
