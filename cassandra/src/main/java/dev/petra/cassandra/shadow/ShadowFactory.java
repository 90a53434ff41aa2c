// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.engine.EngineKey;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.metrics.TableMetrics;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.jspecify.annotations.Nullable;

/**
 * Makes the memtables of tables with a shadow: Cassandra's own, by its configuration {@code
 * default}. Nothing that reads or writes such a table meets code of ours but where its writes are
 * noted, and where its shadow answers.
 *
 * @param engine of the shadow
 * @param answers whether the shadow answers reads, and the table only where the shadow cannot
 * @param share of reads that are compared, from 0 to 1
 */
public record ShadowFactory(EngineKey engine, boolean answers, double share)
        implements Memtable.Factory {
    /** The parameter of a memtable configuration that says who answers. */
    public static final String MODE = "mode";

    /** The parameter with the share of reads that are compared. */
    static final String SHARE = "compared_share";

    private static final String DEFAULT_SHARE = "0.01";

    /** The factory of a table that has a shadow by its schema, or null. */
    public static @Nullable ShadowFactory of(TableMetadata table) {
        return table.params.memtable.factory() instanceof ShadowFactory factory ? factory : null;
    }

    /**
     * Takes everything out of a configuration's parameters, of which {@link #MODE} is gone.
     *
     * @param answers whether the shadow answers reads
     * @throws ConfigurationException if the share is none
     */
    public static ShadowFactory consume(Map<String, String> parameters, boolean answers) {
        // What YAML read as a number is no String.
        Object share = ((Map<?, ?>) parameters).remove(SHARE);
        return new ShadowFactory(
                EngineKey.consume(parameters),
                answers,
                parse(share == null ? DEFAULT_SHARE : share.toString().trim()));
    }

    private static double parse(String share) {
        double value;
        try {
            value = Double.parseDouble(share);
        } catch (NumberFormatException e) {
            value = Double.NaN;
        }
        if (value >= 0 && value <= 1) return value;
        throw new ConfigurationException(
                SHARE + " is '" + share + "', but must be a number from 0 to 1, as 0.01");
    }

    private static Memtable.Factory truth() {
        return MemtableParams.DEFAULT.factory();
    }

    @Override
    public Memtable create(
            AtomicReference<CommitLogPosition> commitLogLowerBound,
            TableMetadataRef metadata,
            Memtable.Owner owner) {
        return truth().create(commitLogLowerBound, metadata, owner);
    }

    @Override
    public boolean writesShouldSkipCommitLog() {
        return truth().writesShouldSkipCommitLog();
    }

    @Override
    public boolean writesAreDurable() {
        return truth().writesAreDurable();
    }

    @Override
    public boolean streamToMemtable() {
        return truth().streamToMemtable();
    }

    @Override
    public boolean streamFromMemtable() {
        return truth().streamFromMemtable();
    }

    @Override
    public TableMetrics.@Nullable ReleasableMetric createMemtableMetrics(
            TableMetadataRef metadata) {
        return truth().createMemtableMetrics(metadata);
    }
}
