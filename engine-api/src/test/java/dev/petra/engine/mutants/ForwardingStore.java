// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.StoreSpec;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermIndexes;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;

/** A store that does what another does: a mutant overrides what it gets wrong. */
class ForwardingStore implements TableStore {
    final TableStore store;

    ForwardingStore(TableStore store) {
        this.store = store;
    }

    /** What is done to each update before it is written; null to lose it. */
    PartitionUpdate changed(PartitionUpdate update) {
        return update;
    }

    /** What is done to each partition that is read. */
    UnfilteredRowIterator changed(UnfilteredRowIterator partition) {
        return partition;
    }

    @Override
    public StoreSpec spec() {
        return store.spec();
    }

    @Override
    public void write(PartitionUpdate update) {
        PartitionUpdate changed = changed(update);
        if (changed != null) store.write(changed);
    }

    @Override
    public void write(PartitionUpdate update, List<TermEntry> entries) {
        PartitionUpdate changed = changed(update);
        if (changed != null) store.write(changed, entries);
    }

    @Override
    public boolean scansAreOfOneMoment() {
        return store.scansAreOfOneMoment();
    }

    @Override
    public boolean hasIndexes() {
        return store.hasIndexes();
    }

    @Override
    public TermIndexes indexes() {
        return store.indexes();
    }

    @Override
    public UnfilteredRowIterator read(
            DecoratedKey key, Slices slices, ColumnFilter columns, boolean reversed) {
        UnfilteredRowIterator partition = store.read(key, slices, columns, reversed);
        return partition == null ? null : changed(partition);
    }

    @Override
    public UnfilteredPartitionIterator scan(DataRange range, ColumnFilter columns) {
        return Transformation.apply(
                store.scan(range, columns),
                new Transformation<UnfilteredRowIterator>() {
                    @Override
                    protected UnfilteredRowIterator applyToPartition(
                            UnfilteredRowIterator partition) {
                        return changed(partition);
                    }
                });
    }

    @Override
    public boolean mayContain(DecoratedKey key) {
        return store.mayContain(key);
    }

    @Override
    public boolean isEmpty() {
        return store.isEmpty();
    }

    @Override
    public StreamSource send(List<SliceRanges> slices) {
        return store.send(slices);
    }

    @Override
    public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
        return store.receive(head, owned);
    }

    @Override
    public long[] sizes(List<Range<Token>> ranges) {
        return store.sizes(ranges);
    }

    @Override
    public void syncLog() {
        store.syncLog();
    }

    @Override
    public void flush() {
        store.flush();
    }

    @Override
    public void compact(Collection<Range<Token>> ranges) {
        store.compact(ranges);
    }

    @Override
    public void collectGarbage(Runnable sweep) {
        store.collectGarbage(sweep);
    }

    @Override
    public void stopPurging() {
        store.stopPurging();
    }

    @Override
    public void checkpoint(Path target) {
        store.checkpoint(target);
    }

    @Override
    public void retainRanges(Collection<Range<Token>> owned) {
        store.retainRanges(owned);
    }

    @Override
    public void verify(LongConsumer beforeFile) {
        store.verify(beforeFile);
    }

    @Override
    public void writeUnsynced(PartitionUpdate update) {
        write(update);
    }

    @Override
    public void drop() {
        store.drop();
    }

    @Override
    public StoreStatistics statistics() {
        return store.statistics();
    }

    @Override
    public void close() {
        store.close();
    }
}
