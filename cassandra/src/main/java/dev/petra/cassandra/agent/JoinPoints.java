// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Every place where Cassandra calls Petra outside the memtable API. The comment above each join
 * point shows the woven code as if it stood in Cassandra's source; the classes that end in {@code
 * Hooks} are in {@code dev.petra.cassandra.hooks}. {@code docs/join-points.md} says why each is
 * needed.
 */
final class JoinPoints {
    private static final String CASSANDRA = "org.apache.cassandra.";
    private static final String CFS = CASSANDRA + "db.ColumnFamilyStore";
    private static final String SERVICE = CASSANDRA + "service.StorageService";
    private static final String SESSION = CASSANDRA + "streaming.StreamSession";
    private static final String COMPACTIONS = CASSANDRA + "db.compaction.CompactionManager";
    private static final String GAUGE = "com.codahale.metrics.Gauge";
    private static final String TABLE_ADVICE = "dev.petra.cassandra.agent.advice.TableAdvice$";
    private static final String NODETOOL_ADVICE =
            "dev.petra.cassandra.agent.advice.NodetoolAdvice$";
    private static final String INDEX_ADVICE = "dev.petra.cassandra.agent.advice.IndexAdvice$";
    private static final String SAI = CASSANDRA + "index.sai.";
    private static final String LEGACY_INDEX_ADVICE =
            "dev.petra.cassandra.agent.advice.LegacyIndexAdvice$";
    private static final String LEGACY_INDEX = CASSANDRA + "index.internal.CassandraIndex";
    private static final String NODE_ADVICE = "dev.petra.cassandra.agent.advice.NodeAdvice$";
    private static final String CONSTRUCTOR = "<init>";
    private static final String STRING = "java.lang.String";
    private static final String STRINGS = "[Ljava.lang.String;";

    static final List<JoinPoint> ALL =
            List.of(
                    // The node

                    // first line: NodeHooks.beforeStart();
                    at(
                            CASSANDRA + "service.StartupChecks",
                            "verify",
                            NODE_ADVICE + "BeforeStart",
                            CASSANDRA + "config.StartupChecksOptions"),
                    // return NodeHooks.isCheckedAsSSTable(file, filename.endsWith(EXTENSION) &&
                    // ...);
                    at(
                            CASSANDRA + "io.sstable.Descriptor",
                            "isValidFile",
                            NODE_ADVICE + "IsCheckedAsSSTable",
                            CASSANDRA + "io.util.File"),
                    // last line: NodeHooks.afterTablesOpened();
                    at(
                            SERVICE,
                            "registerDaemon",
                            NODE_ADVICE + "AfterTablesOpened",
                            CASSANDRA + "service.CassandraDaemon"),
                    // first line: NodeHooks.beforeGossip(preloadLocalStates);
                    at(
                            CASSANDRA + "gms.Gossiper",
                            "start",
                            NODE_ADVICE + "BeforeGossip",
                            "int",
                            "java.util.Map"),
                    // last line: NodetoolHooks.afterCompactionThroughput();
                    at(
                            SERVICE,
                            "setCompactionThroughputMbPerSec",
                            NODE_ADVICE + "AfterCompactionThroughput",
                            "int"),
                    // before the return: NodetoolHooks.compactions(out);
                    at(COMPACTIONS, "getCompactions", NODE_ADVICE + "Compactions"),
                    // first line: NodetoolHooks.stopCompactions(type);
                    at(COMPACTIONS, "stopCompaction", NODE_ADVICE + "StopCompactions", STRING),
                    // first line: gauge = MetricHooks.gauge(
                    //     factory.createMetricName(name).getScope(), name, gauge);
                    at(
                            CASSANDRA + "metrics.TableMetrics",
                            "createTableGauge",
                            NODE_ADVICE + "TableGauge",
                            STRING,
                            STRING,
                            GAUGE,
                            GAUGE),

                    // return MetricHooks.sizeEstimates(table, ranges, estimates);
                    at(
                            CASSANDRA + "db.SizeEstimatesRecorder",
                            "computeSizeEstimates",
                            NODE_ADVICE + "SizeEstimates",
                            CFS,
                            "java.util.Collection"),

                    // first lines:
                    // long[] ours = MetricHooks.repairEstimate(keyspace, table, tokenRange);
                    // partitions += ours[0]; sizeInRange += ours[1]; totalSize += ours[1];
                    at(
                            CASSANDRA + "repair.autorepair.AutoRepairUtils$SizeEstimate",
                            CONSTRUCTOR,
                            NODE_ADVICE + "RepairEstimate",
                            CASSANDRA + "repair.autorepair.AutoRepairConfig$RepairType",
                            STRING,
                            STRING,
                            CASSANDRA + "dht.Range",
                            "long",
                            "long",
                            "long"),
                    // return TableHooks.activeMemtables(memtables);
                    at(CFS, "activeMemtables", TABLE_ADVICE + "ActiveMemtables"),
                    // return MetricHooks.estimateKeys(this, n);
                    at(CFS, "estimateKeys", TABLE_ADVICE + "EstimateKeys"),
                    // return MetricHooks.meanCellsPerPartition(
                    //     this, count > 0 ? (int) (sum / count) : 0);
                    at(CFS, "getMeanEstimatedCellPerPartitionCount", TABLE_ADVICE + "MeanCells"),
                    // return MetricHooks.estimatedKeysForRange(this, range, count);
                    at(
                            CFS,
                            "estimatedKeysForRange",
                            TABLE_ADVICE + "EstimatedKeysForRange",
                            CASSANDRA + "dht.Range"),
                    // return MetricHooks.keySamples(this, range, Iterables.concat(samples));
                    at(CFS, "keySamples", TABLE_ADVICE + "KeySamples", CASSANDRA + "dht.Range"),

                    // NodeHooks.replayPlanBegins();
                    // try { ... } finally { NodeHooks.replayPlanEnds(); }
                    at(
                            CASSANDRA + "db.commitlog.CommitLogReplayer",
                            "construct",
                            NODE_ADVICE + "ReplayPlan",
                            CASSANDRA + "db.commitlog.CommitLog",
                            "java.util.UUID"),
                    // return DataHooks.writesAreDurable(this, memtableFactory.writesAreDurable());
                    at(CFS, "memtableWritesAreDurable", TABLE_ADVICE + "WritesAreDurable"),

                    // Schema and writes

                    // first line: SchemaHooks.beforeSchemaChange(diff);
                    at(
                            CASSANDRA + "schema.SchemaKeyspace",
                            "convertSchemaDiffToMutations",
                            NODE_ADVICE + "BeforeSchemaChange",
                            CASSANDRA + "schema.Keyspaces$KeyspacesDiff",
                            "long"),
                    // first line: DataHooks.beforeWrite(mutation, makeDurable);
                    at(
                            CASSANDRA + "db.CassandraKeyspaceWriteHandler",
                            "beginWrite",
                            NODE_ADVICE + "BeforeWrite",
                            CASSANDRA + "db.Mutation",
                            "boolean"),

                    // first lines: var done = DataHooks.logInstead(mutation);
                    // if (done != null) return done.equals(CommitLogPosition.NONE) ? null : done;
                    at(
                            CASSANDRA + "db.CassandraKeyspaceWriteHandler",
                            "addToCommitLog",
                            NODE_ADVICE + "AddToCommitLog",
                            CASSANDRA + "db.Mutation"),

                    // Object doubled = DataHooks.beforeApply(this, update);
                    // ... if (doubled != null) DataHooks.afterApply(doubled, failure);
                    at(
                            CFS,
                            "apply",
                            TABLE_ADVICE + "Apply",
                            CASSANDRA + "db.partitions.PartitionUpdate",
                            CASSANDRA + "db.CassandraWriteContext",
                            "boolean"),
                    // Object sampled = DataHooks.beforeRead(this); ...
                    // return sampled == null ? read : DataHooks.afterRead(sampled, this, read);
                    at(
                            CASSANDRA + "db.ReadCommand",
                            "executeLocally",
                            NODE_ADVICE + "Read",
                            CASSANDRA + "db.ReadExecutionController"),
                    // first lines: var answer = DataHooks.answer(this, cfs, executionController);
                    // if (answer != null) return answer;
                    at(
                            CASSANDRA + "db.SinglePartitionReadCommand",
                            "queryStorage",
                            NODE_ADVICE + "Answer",
                            CFS,
                            CASSANDRA + "db.ReadExecutionController"),
                    // the same
                    at(
                            CASSANDRA + "db.PartitionRangeReadCommand",
                            "queryStorage",
                            NODE_ADVICE + "Answer",
                            CFS,
                            CASSANDRA + "db.ReadExecutionController"),
                    // last line: NodeHooks.beforeCommitLogMarker();
                    at(
                            CASSANDRA + "db.commitlog.CommitLogSegment",
                            "waitForModifications",
                            NODE_ADVICE + "BeforeCommitLogMarker"),

                    // A table's life

                    // before the return: SchemaHooks.afterOpen(cfs);
                    at(
                            CFS,
                            "createColumnFamilyStore",
                            TABLE_ADVICE + "AfterOpen",
                            CASSANDRA + "db.Keyspace",
                            STRING,
                            CASSANDRA + "schema.TableMetadataRef",
                            CASSANDRA + "db.Directories",
                            "boolean",
                            "boolean",
                            "boolean"),
                    // first line: if (TableHooks.flushMemtable(cfs, memtable)) return List.of();
                    at(
                            CFS + "$Flush",
                            "flushMemtable",
                            TABLE_ADVICE + "FlushMemtable",
                            CFS,
                            CASSANDRA + "db.memtable.Memtable",
                            "boolean"),
                    // TableHooks.dumpBegins();
                    // try { ... } finally { TableHooks.dumpEnds(this, what was thrown); }
                    at(CFS, "dumpMemtable", TABLE_ADVICE + "Dump"),
                    // long before = TableHooks.beforeTruncate(this);
                    // try { ... } finally { TableHooks.truncationEnds(this); }
                    // TableHooks.afterTruncate(this, before);
                    at(CFS, "truncateBlocking", TABLE_ADVICE + "TruncateBlocking", "boolean"),
                    // first line: TableHooks.truncate(this);
                    at(CFS, "discardSSTables", TABLE_ADVICE + "DiscardSSTables", "long"),
                    // first line: position = TableHooks.truncationPosition(cfs, position);
                    at(
                            CASSANDRA + "db.SystemKeyspace",
                            "saveTruncationRecord",
                            TABLE_ADVICE + "TruncationPosition",
                            CFS,
                            "long",
                            CASSANDRA + "db.commitlog.CommitLogPosition"),
                    // last line: SchemaHooks.afterUnload(this);
                    at(CFS, "unloadCf", TABLE_ADVICE + "AfterUnload"),
                    // return TableHooks.afterForceFlush(this, reason, <what it would return>);
                    at(CFS, "forceFlush", TABLE_ADVICE + "AfterForceFlush", CFS + "$FlushReason"),
                    // skipMemtable = TableHooks.snapshotSkipsMemtable(this, skipMemtable);
                    // Object begun = TableHooks.snapshotBegins(this, snapshotName);
                    // try { ... } finally { TableHooks.snapshotEnds(begun, what is returned); }
                    at(
                            CFS,
                            "snapshot",
                            TABLE_ADVICE + "Snapshot",
                            STRING,
                            "com.google.common.base.Predicate",
                            "boolean",
                            "boolean",
                            CASSANDRA + "config.DurationSpec$IntSecondsBound",
                            "com.google.common.util.concurrent.RateLimiter",
                            "java.time.Instant"),
                    // Object begun = TableHooks.importBegins(cfs);
                    // try { ... } finally { TableHooks.importEnds(cfs, begun); }
                    at(
                            CASSANDRA + "db.SSTableImporter",
                            "importNewSSTables",
                            TABLE_ADVICE + "Import",
                            CASSANDRA + "db.SSTableImporter$Options"),
                    // return TableHooks.streamManager(this, streamManager);
                    at(CFS, "getStreamManager", TABLE_ADVICE + "StreamManager"),
                    // first line: TableHooks.beforeReceiving(this, summaries);
                    at(
                            SESSION,
                            "prepareAsync",
                            TABLE_ADVICE + "BeforeReceiving",
                            "java.util.Collection",
                            "java.util.Collection"),
                    // first line: TableHooks.beforeReceiving(this, msg.summaries);
                    at(
                            SESSION,
                            "prepareSynAck",
                            TABLE_ADVICE + "BeforeReceivingAnswer",
                            CASSANDRA + "streaming.messages.PrepareSynAckMessage"),
                    // return TableHooks.repairManager(this, repairManager);
                    at(CFS, "getRepairManager", TABLE_ADVICE + "RepairManager"),

                    // Storage-Attached Indexes

                    // return IndexHooks.memtableIndexes(index, …);
                    at(
                            SAI + "memory.MemtableIndexManager",
                            "getLiveMemtableIndexesSnapshot",
                            INDEX_ADVICE + "MemtableIndexes"),
                    // return IndexHooks.initializationTask(this, …);
                    at(
                            SAI + "StorageAttachedIndex",
                            "getInitializationTask",
                            INDEX_ADVICE + "InitializationTask"),
                    // return IndexHooks.preJoinTask(this, this::startPreJoinTask);
                    at(
                            SAI + "StorageAttachedIndex",
                            "getPreJoinTask",
                            INDEX_ADVICE + "PreJoinTask",
                            "boolean"),
                    // return IndexHooks.buildTask(cfs, indexes, isFullRebuild, …);
                    at(
                            SAI + "StorageAttachedIndexBuildingSupport",
                            "getIndexBuildTask",
                            INDEX_ADVICE + "BuildTask",
                            CFS,
                            "java.util.Set",
                            "java.util.Collection",
                            "boolean"),

                    // Cassandra's legacy indexes

                    // var memtable = IndexHooks.searched(index);
                    // return IndexHooks.hits(index, memtable, indexKey, command, …);
                    at(
                            LEGACY_INDEX + "Searcher",
                            "queryIndex",
                            LEGACY_INDEX_ADVICE + "QueryIndex",
                            CASSANDRA + "db.DecoratedKey",
                            CASSANDRA + "db.ReadCommand",
                            CASSANDRA + "db.ReadExecutionController"),
                    // first line: if (IndexHooks.keepsStaleEntry(this)) return;
                    at(
                            LEGACY_INDEX,
                            "deleteStaleEntry",
                            LEGACY_INDEX_ADVICE + "DeleteStaleEntry",
                            CASSANDRA + "db.DecoratedKey",
                            CASSANDRA + "db.Clustering",
                            CASSANDRA + "db.DeletionTime",
                            CASSANDRA + "db.WriteContext"),
                    // at the end, also if it fails: IndexHooks.afterStaleEntries(index, dataIter,
                    // …);
                    at(
                            CASSANDRA + "index.internal.composites.CompositesSearcher",
                            "filterStaleEntries",
                            LEGACY_INDEX_ADVICE + "FilterStaleEntries",
                            CASSANDRA + "db.rows.UnfilteredRowIterator",
                            "java.nio.ByteBuffer",
                            "java.util.List",
                            CASSANDRA + "db.WriteContext",
                            "long"),
                    // return IndexHooks.initializationTask(this, …);
                    at(
                            LEGACY_INDEX,
                            "getInitializationTask",
                            LEGACY_INDEX_ADVICE + "InitializationTask"),
                    // return IndexHooks.buildTask(cfs, indexes, isFullRebuild, …);
                    at(
                            CASSANDRA + "index.Index$CollatedViewIndexBuildingSupport",
                            "getIndexBuildTask",
                            INDEX_ADVICE + "BuildTask",
                            CFS,
                            "java.util.Set",
                            "java.util.Collection",
                            "boolean"),

                    // nodetool operations that the engine carries out

                    // first line: if (NodetoolHooks.compact(this)) return;
                    at(CFS, "forceMajorCompaction", NODETOOL_ADVICE + "Compact", "boolean"),
                    // first line: if (NodetoolHooks.compact(this, tokenRanges)) return;
                    at(
                            CFS,
                            "forceCompactionForTokenRange",
                            NODETOOL_ADVICE + "CompactRanges",
                            "java.util.Collection"),
                    // first line: if (NodetoolHooks.compact(this, strings)) return;
                    at(
                            CFS,
                            "forceCompactionForTokenRanges",
                            NODETOOL_ADVICE + "CompactRangesAsText",
                            STRINGS),
                    // first lines: var done = NodetoolHooks.verify(this, options);
                    // if (done != null) return done;
                    at(
                            CFS,
                            "verify",
                            NODETOOL_ADVICE + "Verify",
                            CASSANDRA + "io.sstable.IVerifier$Options"),
                    // first lines: var done = NodetoolHooks.cleanup(this);
                    // if (done != null) return done;
                    // try { ... } finally { NodetoolHooks.afterSSTables(this); }
                    at(CFS, "forceCleanup", NODETOOL_ADVICE + "Cleanup", "int"),
                    // first line: NodetoolHooks.cleanupOfOne(cfs);
                    // try { ... } finally { NodetoolHooks.afterSSTables(cfs); }
                    at(
                            COMPACTIONS,
                            "doCleanupOne",
                            NODETOOL_ADVICE + "CleanupOfOne",
                            CFS,
                            CASSANDRA + "db.lifecycle.LifecycleTransaction",
                            COMPACTIONS + "$CleanupStrategy",
                            "java.util.Collection",
                            "boolean"),
                    // first lines: var done = NodetoolHooks.garbageCollect(this);
                    // if (done != null) return done;
                    at(
                            CFS,
                            "garbageCollect",
                            NODETOOL_ADVICE + "GarbageCollect",
                            CASSANDRA + "schema.CompactionParams$TombstoneOption",
                            "int"),
                    // first lines: var done = NodetoolHooks.rewrite(
                    //     this, skipIfCurrentVersion, skipIfNewerThanTimestamp);
                    // if (done != null) return done;
                    at(
                            CFS,
                            "sstablesRewrite",
                            NODETOOL_ADVICE + "Rewrite",
                            "boolean",
                            "long",
                            "boolean",
                            "int"),
                    // first line: NodetoolHooks.scrub(this);
                    // try { ... } finally { NodetoolHooks.afterSSTables(this); }
                    at(
                            CFS,
                            "scrub",
                            NODETOOL_ADVICE + "Scrub",
                            "boolean",
                            "boolean",
                            CASSANDRA + "io.sstable.IScrubber$Options",
                            "int"),
                    // first line: var before = NodetoolHooks.forceCompact(this, keys);
                    // try { ... } finally { NodetoolHooks.afterForceCompact(this, before); }
                    at(
                            CFS,
                            "forceCompactionKeysIgnoringGcGrace",
                            NODETOOL_ADVICE + "ForceCompact",
                            STRINGS),

                    // nodetool and JMX operations that are refused; first line of each:
                    // NodetoolHooks.refuse(this, "<name of the method>");

                    refused("relocateSSTables", "int"),
                    refused("forceCompactionForKey", CASSANDRA + "db.DecoratedKey"),
                    refused("getSSTablesForKey", STRING, "boolean"),
                    refused("getSSTablesForKeyWithLevel", STRING, "boolean"),
                    refused("setCompactionThresholds", "int", "int"),
                    refused("setMinimumCompactionThreshold", "int"),
                    refused("setMaximumCompactionThreshold", "int"),
                    refused("setCompactionParameters", "java.util.Map"),
                    refused("setCompressionParameters", "java.util.Map"),
                    refused("setCrcCheckChance", "double"),
                    // first line: if (value) NodetoolHooks.refuse(this, "setNeverPurgeTombstones");
                    at(CFS, "setNeverPurgeTombstones", NODETOOL_ADVICE + "NeverPurge", "boolean"));

    /** Classes that some releases lack. There, the join points in these classes are left out. */
    private static final Set<String> MAY_BE_MISSING =
            Set.of(CASSANDRA + "repair.autorepair.AutoRepairUtils$SizeEstimate");

    private JoinPoints() {}

    /**
     * The join points that are woven into a Cassandra: all except those in {@link #MAY_BE_MISSING}
     * classes that it lacks.
     *
     * @param cassandra the class files of that Cassandra
     */
    static List<JoinPoint> in(ClassFiles cassandra) {
        return ALL.stream()
                .filter(
                        point ->
                                !MAY_BE_MISSING.contains(point.type())
                                        || cassandra.find(point.type()) != null)
                .toList();
    }

    /** The join points whose method a Cassandra lacks although it must have it. */
    static List<String> missing(ClassFiles cassandra) {
        return in(cassandra).stream()
                .filter(
                        point -> {
                            byte[] file = cassandra.find(point.type());
                            return file == null || !Fingerprint.has(file, point);
                        })
                .map(JoinPoint::toString)
                .toList();
    }

    /**
     * Says that a Cassandra lacks methods that it must have, and where to read on.
     *
     * @return null if it has them all
     */
    static @Nullable String refusal(ClassFiles cassandra) {
        List<String> missing = missing(cassandra);
        if (missing.isEmpty()) return null;
        String release = Release.of(cassandra);
        return "Cassandra "
                + release
                + " does not run with this version of Petra, which is for Cassandra 5.0: see "
                + (release.startsWith("6.") ? "docs/cassandra-6.md" : "docs/compatibility.md")
                + ". Of the methods that Petra changes, this Cassandra has no "
                + String.join(", no ", missing)
                + ".";
    }

    /**
     * A fingerprint of the table and of the advice classes. It changes when a join point or the
     * code of an advice changes, and not when advice merely moves to other source lines.
     */
    static String version() {
        ClassFiles own = ClassFiles.of(JoinPoints.class.getClassLoader());
        StringBuilder text = new StringBuilder();
        for (JoinPoint point : ALL) {
            byte[] advice = own.find(point.advice());
            if (advice == null) throw new IllegalStateException(point.advice() + " is missing");
            text.append(point).append(' ').append(Fingerprint.ofClass(advice)).append('\n');
        }
        return Fingerprint.of(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** The classes that have these join points, each once. */
    static List<String> types(List<JoinPoint> points) {
        return points.stream().map(JoinPoint::type).distinct().toList();
    }

    private static JoinPoint at(String type, String method, String advice, String... parameters) {
        return new JoinPoint(type, method, List.of(parameters), advice);
    }

    private static JoinPoint refused(String method, String... parameters) {
        return at(CFS, method, NODETOOL_ADVICE + "Refuse", parameters);
    }
}
