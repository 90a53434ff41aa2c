// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.HostFixture;
import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.PartitionPosition;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.AbstractUnfilteredRowIterator;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.RangeTombstoneMarker;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.db.rows.Unfiltered;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.AbstractBounds;
import org.apache.cassandra.dht.IncludingExcludingBounds;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;

/** Ways to be wrong about data. */
final class Mutations {
    private Mutations() {}

    // Wrong writes

    /** Writes each row of an update, the static one included, as this has it; null loses it. */
    static UnaryOperator<TableStore> rows(Function<Row, Row> change) {
        return store ->
                new ForwardingStore(store) {
                    @Override
                    PartitionUpdate changed(PartitionUpdate update) {
                        return rewritten(update, change, true, true);
                    }
                };
    }

    static PartitionUpdate rewritten(
            PartitionUpdate update,
            Function<Row, Row> change,
            boolean partitionDeletion,
            boolean ranges) {
        PartitionUpdate.Builder builder =
                new PartitionUpdate.Builder(
                        update.metadata(), update.partitionKey(), update.columns(), 4);
        if (partitionDeletion) builder.addPartitionDeletion(update.partitionLevelDeletion());
        if (ranges) update.deletionInfo().rangeIterator(false).forEachRemaining(builder::add);
        List<Row> rows = new ArrayList<>();
        if (!update.staticRow().isEmpty()) rows.add(update.staticRow());
        for (Row row : update) rows.add(row);
        for (Row row : rows) {
            Row changed = change.apply(row);
            if (changed != null) builder.add(changed);
        }
        return builder.build();
    }

    static final UnaryOperator<TableStore> LOSES_ROW_DELETIONS =
            rows(
                    row ->
                            row.transformAndFilter(
                                    row.primaryKeyLivenessInfo(), Row.Deletion.LIVE, data -> data));

    static final UnaryOperator<TableStore> LOSES_ROW_MARKERS =
            rows(row -> row.transformAndFilter(LivenessInfo.EMPTY, row.deletion(), data -> data));

    static final UnaryOperator<TableStore> LOSES_STATIC_ROWS =
            rows(row -> row.isStatic() ? null : row);

    static final UnaryOperator<TableStore> LOSES_CELLS_BESIDE_A_ROW_DELETION =
            rows(
                    row ->
                            row.deletion().isLive()
                                    ? row
                                    : row.transformAndFilter(
                                            LivenessInfo.EMPTY, row.deletion(), data -> null));

    static final UnaryOperator<TableStore> LOSES_COLLECTION_DELETIONS =
            rows(
                    row ->
                            row.transformAndFilter(
                                    data ->
                                            data instanceof ComplexColumnData complex
                                                    ? complex.transformAndFilter(
                                                            DeletionTime.LIVE, cell -> cell)
                                                    : data));

    static final UnaryOperator<TableStore> FORGETS_TTLS =
            cells(
                    cell ->
                            cell.isExpiring()
                                    ? BufferCell.live(
                                            cell.column(),
                                            cell.timestamp(),
                                            cell.buffer(),
                                            cell.path())
                                    : cell);

    static final UnaryOperator<TableStore> DROPS_TIMESTAMPS_UP_TO_ZERO =
            cells(cell -> cell.timestamp() <= 0 ? null : cell);

    static final UnaryOperator<TableStore> LOSES_EMPTY_VALUES =
            cells(cell -> !cell.isTombstone() && cell.valueSize() == 0 ? null : cell);

    /** Writes each cell as this has it; null loses it. */
    static UnaryOperator<TableStore> cells(Function<Cell<?>, Cell<?>> change) {
        return rows(row -> row.transformAndFilter(data -> changed(data, change)));
    }

    private static ColumnData changed(ColumnData data, Function<Cell<?>, Cell<?>> change) {
        return data instanceof ComplexColumnData complex
                ? complex.transformAndFilter(change::apply)
                : change.apply((Cell<?>) data);
    }

    static TableStore losesColumnsBeyond127(TableStore store) {
        List<ColumnMetadata> columns =
                List.copyOf(store.spec().metadata().get().regularAndStaticColumns().regulars);
        return cells(cell -> columns.indexOf(cell.column()) > 127 ? null : cell).apply(store);
    }

    /** Takes no update of a table of counters that is older than one before. */
    static TableStore ignoresOlderCounters(TableStore store) {
        if (!store.spec().metadata().get().isCounter()) return store;
        return new ForwardingStore(store) {
            private long last = Long.MIN_VALUE;

            @Override
            PartitionUpdate changed(PartitionUpdate update) {
                if (update.maxTimestamp() < last) return null;
                last = update.maxTimestamp();
                return update;
            }
        };
    }

    /** An update can be read when a part of it is written. */
    static TableStore writesRowByRow(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void write(PartitionUpdate update) {
                store.write(rewritten(update, row -> null, true, true));
                for (Row row : update) {
                    store.write(
                            rewritten(update, other -> other == row ? row : null, false, false));
                    LockSupport.parkNanos(1000);
                }
                store.write(
                        rewritten(update, other -> other.isStatic() ? other : null, false, false));
            }
        };
    }

    static TableStore losesPartitionDeletions(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            PartitionUpdate changed(PartitionUpdate update) {
                return rewritten(update, row -> row, false, true);
            }
        };
    }

    static TableStore ignoresRangeTombstones(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            PartitionUpdate changed(PartitionUpdate update) {
                return rewritten(update, row -> row, true, false);
            }
        };
    }

    /** Of two cells of one timestamp the first one written counts. */
    static TableStore firstOfATieCounts(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            PartitionUpdate changed(PartitionUpdate update) {
                return rewritten(
                        update, row -> withoutTies(row, existing(update, row)), true, true);
            }

            private Row existing(PartitionUpdate update, Row row) {
                Slices slices =
                        row.isStatic()
                                ? Slices.NONE
                                : Slices.with(
                                        update.metadata().comparator, Slice.make(row.clustering()));
                try (UnfilteredRowIterator rows =
                        store.read(
                                update.partitionKey(),
                                slices,
                                ColumnFilter.all(update.metadata()),
                                false)) {
                    if (rows == null) return null;
                    if (row.isStatic()) return rows.staticRow();
                    while (rows.hasNext()) if (rows.next() instanceof Row existing) return existing;
                    return null;
                }
            }

            private Row withoutTies(Row row, Row existing) {
                if (existing == null) return row;
                return row.transformAndFilter(
                        data -> {
                            if (data instanceof ComplexColumnData) return data;
                            Cell<?> before = existing.getCell(data.column());
                            return before != null
                                            && before.timestamp() == ((Cell<?>) data).timestamp()
                                    ? null
                                    : data;
                        });
            }
        };
    }

    /** Two keys of one token share one partition deletion. */
    static TableStore sharesDeletionsByToken(TableStore store) {
        Set<DecoratedKey> keys = new HashSet<>();
        return new ForwardingStore(store) {
            @Override
            public void write(PartitionUpdate update) {
                store.write(update);
                keys.add(update.partitionKey());
                if (update.partitionLevelDeletion().isLive()) return;
                for (DecoratedKey key : keys)
                    if (key.getToken().equals(update.partitionKey().getToken())) {
                        PartitionUpdate.Builder other =
                                new PartitionUpdate.Builder(
                                        update.metadata(), key, update.columns(), 0);
                        other.addPartitionDeletion(update.partitionLevelDeletion());
                        store.write(other.build());
                    }
            }
        };
    }

    /** Clusterings come back in the bytes that their type would choose. */
    static UnaryOperator<TableStore> rewritesClusterings() {
        return store ->
                new ForwardingStore(store) {
                    @Override
                    PartitionUpdate changed(PartitionUpdate update) {
                        return rewritten(
                                update,
                                row ->
                                        row.isStatic() || update.metadata().comparator.size() == 0
                                                ? row
                                                : canonical(row, update.metadata()),
                                true,
                                true);
                    }
                };
    }

    private static Row canonical(Row row, TableMetadata table) {
        ByteBuffer[] values = new ByteBuffer[row.clustering().size()];
        for (int i = 0; i < values.length; i++)
            values[i] = canonical(row.clustering().bufferAt(i), table.comparator.subtype(i));
        Row.Builder builder = BTreeRow.sortedBuilder();
        builder.newRow(Clustering.make(values));
        builder.addRowDeletion(row.deletion());
        builder.addPrimaryKeyLivenessInfo(row.primaryKeyLivenessInfo());
        for (ColumnData data : row)
            if (data instanceof ComplexColumnData complex) {
                if (!complex.complexDeletion().isLive())
                    builder.addComplexDeletion(data.column(), complex.complexDeletion());
                for (Cell<?> cell : complex) builder.addCell(cell);
            } else builder.addCell((Cell<?>) data);
        return builder.build();
    }

    @SuppressWarnings("unchecked")
    private static ByteBuffer canonical(ByteBuffer value, AbstractType<?> type) {
        return value.hasRemaining()
                ? ((AbstractType<Object>) type).decompose(type.compose(value))
                : value;
    }

    /** Partition keys come back in the bytes that their type would choose. */
    static TableStore rewritesKeys(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            UnfilteredRowIterator changed(UnfilteredRowIterator partition) {
                TableMetadata table = partition.metadata();
                if (table.partitionKeyColumns().size() > 1) return partition;
                DecoratedKey key =
                        table.partitioner.decorateKey(
                                canonical(
                                        partition.partitionKey().getKey(), table.partitionKeyType));
                return listed(partition, key, unfiltereds(partition));
            }
        };
    }

    /** Of several entries of a write, the last. */
    static TableStore forgetsIndexEntries(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public void write(PartitionUpdate update, List<TermEntry> entries) {
                super.write(
                        update,
                        entries.size() > 1 ? entries.subList(0, entries.size() - 1) : entries);
            }
        };
    }

    /** Of the entries that a row confirms, a sweep removes those of about every other term. */
    static TableStore sweepsTooMuch(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public TermIndexes indexes() {
                return new ForwardingIndexes(super.indexes()) {
                    @Override
                    public long sweep(UUID index, SweepCheck check) {
                        return super.sweep(index, confirmingLess(check));
                    }
                };
            }
        };
    }

    private static SweepCheck confirmingLess(SweepCheck check) {
        return new SweepCheck() {
            @Override
            public boolean isConfirmed(
                    ByteBuffer term, DecoratedKey key, Clustering<?> clustering) {
                return (term.hashCode() & 1) == 0 && check.isConfirmed(term, key, clustering);
            }

            @Override
            public void looked(boolean isRemoved) {
                check.looked(isRemoved);
            }

            @Override
            public boolean goesOn() {
                return check.goesOn();
            }

            @Override
            public void pause() {
                check.pause();
            }
        };
    }

    // Wrong reads

    /** Each row, the static one included, is read as this has it; null loses it. */
    static UnaryOperator<TableStore> readRows(Function<Row, Row> change) {
        return transformed(
                () ->
                        new Transformation<UnfilteredRowIterator>() {
                            @Override
                            protected Row applyToRow(Row row) {
                                return change.apply(row);
                            }

                            @Override
                            protected Row applyToStatic(Row row) {
                                if (row.isEmpty()) return row;
                                Row changed = change.apply(row);
                                return changed == null ? Rows.EMPTY_STATIC_ROW : changed;
                            }
                        });
    }

    private static UnaryOperator<TableStore> transformed(
            Supplier<Transformation<UnfilteredRowIterator>> change) {
        return store ->
                new ForwardingStore(store) {
                    @Override
                    UnfilteredRowIterator changed(UnfilteredRowIterator partition) {
                        return Transformation.apply(partition, change.get());
                    }
                };
    }

    static final UnaryOperator<TableStore> STRIPS_TOMBSTONES_ON_READ =
            readRows(
                    row ->
                            row.transformAndFilter(
                                    data ->
                                            Mutations.changed(
                                                    data,
                                                    cell -> cell.isTombstone() ? null : cell)));

    /** An expiring cell is read as a tombstone that is newer than the cell was. */
    static final UnaryOperator<TableStore> EXPIRES_AT_WRITE_TIME_PLUS_TTL =
            readRows(
                    row ->
                            row.transformAndFilter(
                                    data ->
                                            Mutations.changed(
                                                    data,
                                                    cell ->
                                                            cell.isExpiring()
                                                                    ? BufferCell.tombstone(
                                                                            cell.column(),
                                                                            cell.timestamp()
                                                                                    + cell.ttl(),
                                                                            cell
                                                                                    .localDeletionTime(),
                                                                            cell.path())
                                                                    : cell)));

    static final UnaryOperator<TableStore> LOSES_THE_STATIC_ROW_ON_READ =
            readRows(row -> row.isStatic() ? null : row);

    /** Markers that this does not choose are not read. */
    private static UnaryOperator<TableStore> markers(
            Function<RangeTombstoneMarker, RangeTombstoneMarker> change) {
        return transformed(
                () ->
                        new Transformation<UnfilteredRowIterator>() {
                            @Override
                            protected RangeTombstoneMarker applyToMarker(
                                    RangeTombstoneMarker marker) {
                                return change.apply(marker);
                            }
                        });
    }

    static final UnaryOperator<TableStore> LOSES_CLOSING_MARKERS =
            markers(marker -> marker.isClose(false) && !marker.isBoundary() ? null : marker);

    static final UnaryOperator<TableStore> LOSES_BOUNDARIES =
            markers(marker -> marker.isBoundary() ? null : marker);

    private static final UnaryOperator<TableStore> LOSES_ALL_MARKERS = markers(marker -> null);

    /** Reads with something else than was asked for. */
    private interface Question {
        UnfilteredRowIterator ask(
                TableStore store,
                DecoratedKey key,
                Slices slices,
                ColumnFilter columns,
                boolean reversed);
    }

    private static UnaryOperator<TableStore> asked(Question question) {
        return store ->
                new ForwardingStore(store) {
                    @Override
                    public UnfilteredRowIterator read(
                            DecoratedKey key,
                            Slices slices,
                            ColumnFilter columns,
                            boolean reversed) {
                        return question.ask(store, key, slices, columns, reversed);
                    }
                };
    }

    private static Slices one(TableStore store, Slice slice) {
        return Slices.with(store.spec().metadata().get().comparator, slice);
    }

    static final UnaryOperator<TableStore> READS_ONLY_THE_FIRST_SLICE =
            asked(
                    (store, key, slices, columns, reversed) ->
                            store.read(
                                    key,
                                    slices.size() > 1 ? one(store, slices.get(0)) : slices,
                                    columns,
                                    reversed));

    static final UnaryOperator<TableStore> READS_SLICES_FORWARDS_IN_REVERSE =
            asked(
                    (store, key, slices, columns, reversed) -> {
                        if (!reversed || slices.size() < 2)
                            return store.read(key, slices, columns, reversed);
                        List<Unfiltered> all = new ArrayList<>();
                        for (Slice slice : slices)
                            try (UnfilteredRowIterator rows =
                                    store.read(key, one(store, slice), columns, true)) {
                                if (rows != null) rows.forEachRemaining(all::add);
                            }
                        UnfilteredRowIterator rows = store.read(key, slices, columns, true);
                        return rows == null ? null : listed(rows, rows.partitionKey(), all);
                    });

    static final UnaryOperator<TableStore> READS_FORWARDS_IN_REVERSE =
            asked(
                    (store, key, slices, columns, reversed) -> {
                        UnfilteredRowIterator rows = store.read(key, slices, columns, reversed);
                        if (!reversed || rows == null) return rows;
                        List<Unfiltered> all = unfiltereds(rows);
                        Collections.reverse(all);
                        return listed(rows, rows.partitionKey(), all);
                    });

    static final UnaryOperator<TableStore> TAKES_EVERY_BOUND_FOR_INCLUSIVE =
            asked(
                    (store, key, slices, columns, reversed) -> {
                        if (slices.size() != 1) return store.read(key, slices, columns, reversed);
                        Slice slice = slices.get(0);
                        return store.read(
                                key,
                                one(
                                        store,
                                        Slice.make(
                                                ClusteringBound.inclusiveStartOf(slice.start()),
                                                ClusteringBound.inclusiveEndOf(slice.end()))),
                                columns,
                                reversed);
                    });

    static final UnaryOperator<TableStore> CLIPS_NO_RANGE_TOMBSTONES =
            asked(
                    (store, key, slices, columns, reversed) -> {
                        UnfilteredRowIterator rows = store.read(key, Slices.ALL, columns, reversed);
                        if (rows == null || slices.size() == 0)
                            return store.read(key, slices, columns, reversed);
                        List<Unfiltered> all = unfiltereds(rows);
                        all.removeIf(
                                next ->
                                        next instanceof Row row
                                                && !slices.selects(row.clustering()));
                        return listed(rows, rows.partitionKey(), all);
                    });

    static final UnaryOperator<TableStore> READS_ALL_COLUMNS =
            asked(
                    (store, key, slices, columns, reversed) ->
                            store.read(
                                    key,
                                    slices,
                                    ColumnFilter.all(store.spec().metadata().get()),
                                    reversed));

    static final UnaryOperator<TableStore> KEEPS_VALUES_THAT_ARE_NOT_QUERIED =
            asked(
                    (store, key, slices, columns, reversed) ->
                            store.read(
                                    key,
                                    slices,
                                    ColumnFilter.selection(columns.fetchedColumns()),
                                    reversed));

    static TableStore mayContainDenies(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public boolean mayContain(DecoratedKey key) {
                return false;
            }
        };
    }

    // Wrong scans

    static TableStore scansLeftInclusively(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
                AbstractBounds<PartitionPosition> bounds = range.keyRange();
                boolean turn = bounds instanceof Range && !bounds.right.isMinimum();
                return store.scan(
                        turn
                                ? range.forSubRange(
                                        new IncludingExcludingBounds<>(bounds.left, bounds.right))
                                : range,
                        columns);
            }
        };
    }

    static TableStore scansWithoutClusteringFilter(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
                return store.scan(
                        new DataRange(
                                range.keyRange(),
                                new ClusteringIndexSliceFilter(Slices.ALL, range.isReversed())),
                        columns);
            }
        };
    }

    static TableStore skipsPartitionsInScans(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
                return Transformation.apply(
                        store.scan(range, columns),
                        new Transformation<UnfilteredRowIterator>() {
                            private int count;

                            @Override
                            protected UnfilteredRowIterator applyToPartition(
                                    UnfilteredRowIterator partition) {
                                if (++count != 2) return partition;
                                partition.close();
                                return null;
                            }
                        });
            }
        };
    }

    // Wrong about the table

    /** Knows nothing of dropped columns. */
    static StorageEngine ignoresDroppedColumns(StorageEngine engine) {
        return new AnotherTable(engine, table -> table.unbuild().droppedColumns(Map.of()).build());
    }

    /** Shows an engine another version of each table. */
    private static final class AnotherTable extends ForwardingEngine {
        private final UnaryOperator<TableMetadata> change;

        AnotherTable(StorageEngine engine, UnaryOperator<TableMetadata> change) {
            super(engine, store -> store);
            this.change = change;
        }

        @Override
        public TableStore openStore(StoreSpec spec) {
            TableMetadataRef inner = HostFixture.ref(change.apply(spec.metadata().get()));
            TableStore store =
                    engine.openStore(
                            new StoreSpec(
                                    spec.directory(),
                                    spec.columnFamily(),
                                    spec.generation(),
                                    inner,
                                    spec.mayPurge(),
                                    spec.gcBefore(),
                                    spec.mayCompact(),
                                    spec.isDurable()));
            return new ForwardingStore(store) {
                private void look() {
                    HostFixture.alter(inner, change.apply(spec.metadata().get()));
                }

                @Override
                public StoreSpec spec() {
                    return spec;
                }

                @Override
                PartitionUpdate changed(PartitionUpdate update) {
                    look();
                    return update;
                }

                @Override
                public UnfilteredRowIterator read(
                        DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
                    look();
                    return super.read(key, slices, columns, reversed);
                }

                @Override
                public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
                    look();
                    return super.scan(range, columns);
                }
            };
        }
    }

    /**
     * Names a simple column by its place among the columns there were when the store was opened.
     */
    static TableStore namesColumnsByPosition(TableStore store) {
        List<ColumnMetadata> before = simple(store.spec().metadata().get());
        return readRows(
                        row -> {
                            List<ColumnMetadata> now = simple(store.spec().metadata().get());
                            Row.Builder builder = BTreeRow.unsortedBuilder();
                            builder.newRow(row.clustering());
                            builder.addRowDeletion(row.deletion());
                            builder.addPrimaryKeyLivenessInfo(row.primaryKeyLivenessInfo());
                            for (Cell<?> cell : row.cells()) {
                                int place = before.indexOf(cell.column());
                                boolean moved =
                                        place >= 0
                                                && place < now.size()
                                                && now.get(place).type.equals(cell.column().type);
                                builder.addCell(
                                        moved ? cell.withUpdatedColumn(now.get(place)) : cell);
                            }
                            return builder.build();
                        })
                .apply(store);
    }

    private static List<ColumnMetadata> simple(TableMetadata table) {
        List<ColumnMetadata> columns = new ArrayList<>();
        for (ColumnMetadata column : table.regularColumns())
            if (!column.isComplex()) columns.add(column);
        return columns;
    }

    // Wrong after a while

    static TableStore losesTombstonesInCompaction(TableStore store) {
        return onceCompacted(store, STRIPS_TOMBSTONES_ON_READ.apply(store));
    }

    static TableStore losesRowDeletionsInCompaction(TableStore store) {
        return onceCompacted(store, STRIPS_ROW_DELETIONS_ON_READ.apply(store));
    }

    private static TableStore onceCompacted(TableStore store, TableStore losing) {
        return new ForwardingStore(store) {
            private boolean compacted;

            @Override
            public void compact(Collection<Range<Token>> ranges) {
                compacted = true;
            }

            @Override
            public UnfilteredRowIterator read(
                    DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
                return (compacted ? losing : store).read(key, slices, columns, reversed);
            }
        };
    }

    private static final UnaryOperator<TableStore> STRIPS_ROW_DELETIONS_ON_READ =
            readRows(
                    row ->
                            row.transformAndFilter(
                                    row.primaryKeyLivenessInfo(), Row.Deletion.LIVE, data -> data));

    /** What it removed shows only when its compaction ends, though it was forbidden meanwhile. */
    static TableStore purgesThoughForbidden(TableStore store) {
        TableStore stripping = STRIPS_ROW_DELETIONS_ON_READ.apply(store);
        CountDownLatch forbidden = new CountDownLatch(1);
        return new ForwardingStore(store) {
            private volatile boolean purged;

            @Override
            public void compact(Collection<Range<Token>> ranges) {
                if (!spec().mayPurge().getAsBoolean()) return;
                try {
                    if (!forbidden.await(1, TimeUnit.SECONDS)) return;
                    // As long as it takes to install what came of it.
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                purged = true;
            }

            @Override
            public void stopPurging() {
                forbidden.countDown();
            }

            @Override
            public UnfilteredRowIterator read(
                    DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
                return (purged ? stripping : store).read(key, slices, columns, reversed);
            }
        };
    }

    /** A scan that began before a compaction lacks what that purges. */
    static TableStore purgesUnderReaders(TableStore store) {
        ForwardingStore stripping = (ForwardingStore) STRIPS_TOMBSTONES_ON_READ.apply(store);
        return new ForwardingStore(store) {
            private boolean purged;

            @Override
            public void compact(Collection<Range<Token>> ranges) {
                purged = true;
            }

            @Override
            UnfilteredRowIterator changed(UnfilteredRowIterator partition) {
                return purged ? stripping.changed(partition) : partition;
            }
        };
    }

    /** Forgets range tombstones when a directory is opened for the second time. */
    static UnaryOperator<TableStore> losesMarkersOnReopening() {
        Set<Path> opened = new HashSet<>();
        return store ->
                opened.add(store.spec().directory()) ? store : LOSES_ALL_MARKERS.apply(store);
    }

    // Iterators

    static List<Unfiltered> unfiltereds(UnfilteredRowIterator rows) {
        List<Unfiltered> all = new ArrayList<>();
        rows.forEachRemaining(all::add);
        return all;
    }

    /** An iterator like another one, with another key and content; closes that one. */
    static UnfilteredRowIterator listed(
            UnfilteredRowIterator like, DecoratedKey key, List<Unfiltered> content) {
        Iterator<Unfiltered> iterator = content.iterator();
        return new AbstractUnfilteredRowIterator(
                like.metadata(),
                key,
                like.partitionLevelDeletion(),
                like.columns(),
                like.staticRow(),
                like.isReverseOrder(),
                like.stats()) {
            @Override
            protected Unfiltered computeNext() {
                return iterator.hasNext() ? iterator.next() : endOfData();
            }

            @Override
            public void close() {
                like.close();
            }
        };
    }
}
