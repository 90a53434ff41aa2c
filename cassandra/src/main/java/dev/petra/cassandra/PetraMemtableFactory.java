// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.migration.EngineConfiguration;
import dev.petra.cassandra.migration.TableLifecycle;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import dev.petra.engine.StorageEngine;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.InheritingClass;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.commitlog.CommitLog;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.db.memtable.SkipListMemtable;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.SchemaConstants;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes the memtables of one configuration. Equal for equal engines, so that an ALTER TABLE that
 * changes other options is not taken for a change of engine.
 *
 * <p>Neither kind of streaming through memtables is asked for: received SSTables would be replayed
 * as mutations, and sent data written to temporary SSTables in the live directory. Streams of these
 * tables go through {@link dev.petra.cassandra.streaming.PetraStreamManager}.
 */
public record PetraMemtableFactory(EngineKey engine)
        implements Memtable.Factory, EngineConfiguration {
    private static final Logger logger = LoggerFactory.getLogger(PetraMemtableFactory.class);

    /** Whether a table's schema gives it to an engine of ours. */
    public static boolean owns(TableMetadata table) {
        return table.params.memtable.factory() instanceof PetraMemtableFactory;
    }

    /** Opens the engine, so that errors show where the configuration is read. */
    public StorageEngine open() {
        return Engines.get(engine);
    }

    @Override
    public String configuration() {
        for (String name : configurations().keySet()) if (equals(named(name))) return name;
        throw new IllegalStateException("No memtable configuration is for " + engine);
    }

    /**
     * What a memtable configuration makes, or null if that is not an engine's. One that cannot be
     * used is none: Cassandra minds it only where a table uses it, and says so there.
     */
    public static @Nullable PetraMemtableFactory named(String configuration) {
        return read(configuration) instanceof PetraMemtableFactory ours ? ours : null;
    }

    private static Memtable.@Nullable Factory read(String configuration) {
        if (!configurations().containsKey(configuration)) return null;
        try {
            return MemtableParams.get(configuration).factory();
        } catch (ConfigurationException | LinkageError e) {
            logger.debug("Memtable configuration {} cannot be used", configuration, e);
            return null;
        }
    }

    /** The first engine that {@code cassandra.yaml} configures, or null. */
    public static @Nullable PetraMemtableFactory any() {
        for (String name : configurations().keySet()) {
            PetraMemtableFactory factory = named(name);
            if (factory != null) return factory;
        }
        return null;
    }

    /**
     * Whether a memtable configuration can be used, of whatever class; Cassandra's default always
     * can.
     */
    public static boolean isUsable(String configuration) {
        return configuration.equals("default") || read(configuration) != null;
    }

    private static Map<String, InheritingClass> configurations() {
        Map<String, InheritingClass> all = DatabaseDescriptor.getMemtableConfigurations();
        return all == null ? Map.of() : all;
    }

    /**
     * @throws ConfigurationException for a table that must not be in an engine
     * @throws IllegalStateException if the node's start-up checks did not run, or while the node
     *     starts, if the table is not fit for an engine
     */
    @Override
    public Memtable create(
            AtomicReference<CommitLogPosition> commitLogLowerBound,
            TableMetadataRef metadata,
            Memtable.Owner owner) {
        if (SchemaConstants.isSystemKeyspace(metadata.keyspace))
            throw new ConfigurationException(
                    "Table "
                            + metadata
                            + " is a system table, which cannot be in storage engine '"
                            + engine.engine()
                            + "': Cassandra flushes such tables itself and relies on its commit"
                            + " log. Do not make the engine the default memtable.");
        if (!(owner instanceof ColumnFamilyStore cfs))
            throw new ConfigurationException(
                    "Storage engine '" + engine.engine() + "' needs a running node.");
        // An index table has its table's memtable configuration, and is flushed with the SSTables
        // of the table. It is for a table that leaves its engine, and for one that is not yet in
        // it as a whole.
        if (cfs.metadata.get().isIndex())
            return SkipListMemtable.FACTORY.create(commitLogLowerBound, metadata, owner);
        StartupCheck.requirePassed();
        Generation next = TableLifecycle.next(cfs, engine);
        // Its writes are logged, as DataHooks goes by the memtables.
        return next == null
                ? SkipListMemtable.FACTORY.create(commitLogLowerBound, metadata, owner)
                : new PetraMemtable(commitLogLowerBound, metadata, this, cfs, next);
    }

    @Override
    public EngineMemtable departing(ColumnFamilyStore cfs, Generation generation, long migration) {
        PetraMemtable memtable =
                new PetraMemtable(
                        new AtomicReference<>(CommitLog.instance.getCurrentPosition()),
                        cfs.metadata,
                        this,
                        cfs,
                        generation);
        memtable.departBy(migration);
        return memtable;
    }

    /**
     * Writes skip the commit log where no memtable of Cassandra's is alive beside this one. While a
     * table is on its way into the engine its writes go to the commit log as well: {@code
     * DataHooks.logInstead}.
     */
    @Override
    public boolean writesShouldSkipCommitLog() {
        return true;
    }

    @Override
    public boolean writesAreDurable() {
        return true;
    }
}
