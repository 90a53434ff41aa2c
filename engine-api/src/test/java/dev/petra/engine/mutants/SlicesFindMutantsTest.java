// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.StreamTests;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.reference.MemoryEngineProvider;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The test that names a rule of slices finds the engine that breaks it. */
final class SlicesFindMutantsTest {
    /** An engine that is wrong in the way that its name says, and the test that must find it. */
    private record Mutant(
            String name, UnaryOperator<TableStore> mutation, ExamplesFindMutantsTest.Example test) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static StreamTests slices(EngineUnderTest kit) {
        return () -> kit;
    }

    static Stream<Mutant> mutants() {
        return Stream.of(
                new Mutant(
                        "a slice loses its last block",
                        store -> reading(store, LosesTheLastBlock::new),
                        kit -> slices(kit).slicesOfManyBlocksArriveWholeSideBySide()),
                new Mutant(
                        "a slice ends when its store is compacted",
                        SlicesFindMutantsTest::endsWithACompaction,
                        kit -> slices(kit).whatIsThereWhenItBeginsIsSentOrReplaced()),
                new Mutant(
                        "a partition is of two moments",
                        SlicesFindMutantsTest::cutsPartitions,
                        kit -> slices(kit).aPartitionIsOfOneMoment()),
                new Mutant(
                        "slices are [left, right)",
                        SlicesFindMutantsTest::sendsLeftInclusively,
                        kit -> slices(kit).aSliceExcludesItsLeftTokenAndIncludesItsRight()),
                new Mutant(
                        "a slice has what is between its ranges",
                        SlicesFindMutantsTest::sendsWhatIsBetween,
                        kit -> slices(kit).aSliceHasEachOfItsRangesAndNothingBetween()),
                new Mutant(
                        "the readers of a slice share its blocks",
                        SlicesFindMutantsTest::sharesReaders,
                        kit -> slices(kit).aSliceIsReadForSeveralReceivers()),
                new Mutant(
                        "what is sent ends with a drop",
                        SlicesFindMutantsTest::endsWithADrop,
                        kit -> slices(kit).whatIsSentOutlivesADrop()),
                new Mutant(
                        "what is sent was read before it was asked for",
                        store -> reading(store, ReadsAhead::new),
                        kit -> slices(kit).nothingIsReadOnceItsStoreOrItsStreamIsClosed()),
                new Mutant(
                        "a slice is live when it has ended",
                        SlicesFindMutantsTest::showsEachSlice,
                        kit -> slices(kit).slicesAreInvisibleBeforeTheIngestAndGoneAfterAnAbort()),
                new Mutant(
                        "slices are live once verified",
                        store -> receiving(store, IngestsOnVerify::new),
                        kit -> slices(kit).slicesAreInvisibleBeforeTheIngestAndGoneAfterAnAbort()),
                new Mutant(
                        "18: an aborted stream is ingested",
                        store -> receiving(store, IngestsOnClose::new),
                        kit -> slices(kit).slicesAreInvisibleBeforeTheIngestAndGoneAfterAnAbort()),
                new Mutant(
                        "a torn slice counts",
                        store -> receiving(store, TakesTornSlices::new),
                        kit -> slices(kit).aSliceThatIsTornIsGoneAndMayComeAgain()),
                new Mutant(
                        "what came of a torn slice stays",
                        store -> receiving(store, KeepsTornSlices::new),
                        kit -> slices(kit).aSliceThatIsTornIsGoneAndMayComeAgain()),
                new Mutant(
                        "missing slices are taken for empty ones",
                        SlicesFindMutantsTest::fillsInMissingSlices,
                        kit -> slices(kit).aMissingSliceIsNoticedBeforeAnythingIsLive()),
                new Mutant(
                        "keys of others are taken",
                        SlicesFindMutantsTest::ownsEverything,
                        kit -> slices(kit).keysThatTheNodeDoesNotOwnAreNotTaken()),
                new Mutant(
                        "slices of another table are taken",
                        SlicesFindMutantsTest::takesAnyTable,
                        kit -> slices(kit).slicesOfSomethingElseAreRefusedByTheirHead()),
                new Mutant(
                        "blocks that are none are passed over",
                        store -> receiving(store, PassesOverBadBlocks::new),
                        kit -> slices(kit).aBlockThatIsNoneIsRefusedAndTheSliceMayComeAgain()),
                new Mutant(
                        "slices are taken though their store has ended",
                        store -> receiving(store, TakesWithoutItsStore::new),
                        kit -> slices(kit).slicesAreRefusedOnceTheirStoreHasEndedAtWhateverStage()),
                new Mutant(
                        "a stream is verified though its store has ended",
                        store -> receiving(store, VerifiesWithoutItsStore::new),
                        kit -> slices(kit).slicesAreRefusedOnceTheirStoreHasEndedAtWhateverStage()),
                new Mutant(
                        "a stream goes live though its store has ended",
                        store -> receiving(store, IngestsWithoutItsStore::new),
                        kit -> slices(kit).slicesAreRefusedOnceTheirStoreHasEndedAtWhateverStage()),
                new Mutant(
                        "sizes are in another order",
                        SlicesFindMutantsTest::turnsSizes,
                        kit -> slices(kit).sizesAreOfEachRangeInItsPlace()));
    }

    @ParameterizedTest
    @MethodSource("mutants")
    void itsTestFindsEveryMutantAndPassesTheReference(Mutant mutant) throws Exception {
        ExamplesFindMutantsTest.requireFound(
                mutant.name(), () -> new MutantEngine(mutant.mutation()), mutant.test());
    }

    // The sender's

    private static class ForwardingSource implements StreamSource {
        final StreamSource source;

        ForwardingSource(StreamSource source) {
            this.source = source;
        }

        @Override
        public StreamHead head() {
            return source.head();
        }

        @Override
        public SliceReader open(int slice) {
            return source.open(slice);
        }

        @Override
        public void close() {
            source.close();
        }
    }

    private static class ForwardingReader implements SliceReader {
        final SliceReader reader;

        ForwardingReader(SliceReader reader) {
            this.reader = reader;
        }

        @Override
        public ByteBuffer next() throws IOException {
            return reader.next();
        }

        @Override
        public void close() {
            reader.close();
        }
    }

    private static TableStore sending(TableStore store, UnaryOperator<StreamSource> mutation) {
        return new ForwardingStore(store) {
            @Override
            public StreamSource send(List<SliceRanges> slices) {
                return mutation.apply(store.send(slices));
            }
        };
    }

    private static TableStore reading(TableStore store, UnaryOperator<SliceReader> mutation) {
        return sending(
                store,
                source ->
                        new ForwardingSource(source) {
                            @Override
                            public SliceReader open(int slice) {
                                return mutation.apply(source.open(slice));
                            }
                        });
    }

    private static TableStore sendingOther(
            TableStore store, Function<SliceRanges, SliceRanges> mutation) {
        return new ForwardingStore(store) {
            @Override
            public StreamSource send(List<SliceRanges> slices) {
                return store.send(slices.stream().map(mutation).toList());
            }

            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                return store.receive(head, RangeTests.everything());
            }
        };
    }

    private static ByteBuffer copy(ByteBuffer block) {
        return ByteBuffer.allocate(block.remaining()).put(block).flip();
    }

    private static final class LosesTheLastBlock extends ForwardingReader {
        private ByteBuffer ahead;

        LosesTheLastBlock(SliceReader reader) {
            super(reader);
        }

        @Override
        public ByteBuffer next() throws IOException {
            ByteBuffer current = ahead == null ? read() : ahead;
            ahead = read();
            return ahead == null ? null : current;
        }

        private ByteBuffer read() throws IOException {
            ByteBuffer block = reader.next();
            return block == null ? null : copy(block);
        }
    }

    private static final class ReadsAhead extends ForwardingReader {
        private final Deque<ByteBuffer> blocks = new ArrayDeque<>();

        ReadsAhead(SliceReader reader) {
            super(reader);
            try {
                for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                    blocks.add(copy(block));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        @Override
        public ByteBuffer next() {
            return blocks.poll();
        }
    }

    private static TableStore endsWithACompaction(TableStore store) {
        boolean[] compacted = {false};
        TableStore sending =
                reading(
                        store,
                        reader ->
                                new ForwardingReader(reader) {
                                    @Override
                                    public ByteBuffer next() throws IOException {
                                        return compacted[0] ? null : reader.next();
                                    }
                                });
        return new ForwardingStore(sending) {
            @Override
            public void compact(Collection<Range<Token>> ranges) {
                compacted[0] = true;
                store.compact(ranges);
            }
        };
    }

    /** A block has the first rows of a partition, the next one has the others. */
    private static TableStore cutsPartitions(TableStore store) {
        return sending(
                store,
                source ->
                        new ForwardingSource(source) {
                            @Override
                            public SliceReader open(int slice) {
                                return new CutsPartitions(store, source.open(slice));
                            }
                        });
    }

    private static final class CutsPartitions extends ForwardingReader {
        private static int stores;

        private final TableStore store;
        private final Iterator<DecoratedKey> keys;
        private DecoratedKey begun;

        CutsPartitions(TableStore store, SliceReader reader) {
            super(reader);
            this.store = store;
            List<DecoratedKey> all = new ArrayList<>();
            for (int k = 0; k < 50; k++) all.add(TestTable.of(table()).key(k));
            keys = all.stream().sorted().iterator();
        }

        private TableMetadata table() {
            return store.spec().metadata().get();
        }

        @Override
        public ByteBuffer next() throws IOException {
            TestTable table = TestTable.of(table());
            DecoratedKey key = begun;
            Slice rows;
            if (key == null) {
                if (!keys.hasNext()) return null;
                key = keys.next();
                begun = key;
                rows = Slice.make(table.from(), table.before(5));
            } else {
                begun = null;
                rows = Slice.make(table.from(5), table.to());
            }
            ColumnFilter columns = ColumnFilter.all(table());
            Slices slices = Slices.with(table().comparator, rows);
            try (UnfilteredRowIterator content = store.read(key, slices, columns, false)) {
                return blockOf(PartitionUpdate.fromIterator(content, columns));
            }
        }

        /** By way of a store that has nothing else. */
        private ByteBuffer blockOf(PartitionUpdate update) throws IOException {
            StoreSpec spec = store.spec();
            StoreSpec other =
                    new StoreSpec(
                            spec.directory().resolveSibling("part-" + stores++),
                            spec.columnFamily(),
                            1,
                            spec.metadata());
            try (StorageEngine engine =
                            StorageEngines.open(
                                    MemoryEngineProvider.NAME, new EngineSettings(Map.of()));
                    TableStore part = engine.openStore(other)) {
                part.write(update);
                try (StreamSource source =
                                part.send(List.of(new SliceRanges(RangeTests.everything(), 0)));
                        SliceReader whole = source.open(0)) {
                    return copy(whole.next());
                }
            }
        }
    }

    private static TableStore sendsLeftInclusively(TableStore store) {
        return sendingOther(
                store,
                slice ->
                        new SliceRanges(
                                ExamplesFindMutantsTest.turned(slice.ranges()), slice.bytes()));
    }

    private static TableStore sendsWhatIsBetween(TableStore store) {
        return sendingOther(
                store,
                slice -> {
                    List<Range<Token>> ranges = slice.ranges();
                    return new SliceRanges(
                            List.of(
                                    new Range<>(
                                            ranges.get(0).left,
                                            ranges.get(ranges.size() - 1).right)),
                            slice.bytes());
                });
    }

    private static TableStore sharesReaders(TableStore store) {
        return sending(
                store,
                source ->
                        new ForwardingSource(source) {
                            private final Map<Integer, SliceReader> readers = new HashMap<>();

                            @Override
                            public SliceReader open(int slice) {
                                SliceReader shared = readers.computeIfAbsent(slice, source::open);
                                return new ForwardingReader(shared) {
                                    @Override
                                    public void close() {
                                        // Another may read it.
                                    }
                                };
                            }
                        });
    }

    private static TableStore endsWithADrop(TableStore store) {
        List<StreamSource> sources = new ArrayList<>();
        TableStore sending =
                sending(
                        store,
                        source -> {
                            sources.add(source);
                            return source;
                        });
        return new ForwardingStore(sending) {
            @Override
            public void drop() {
                sources.forEach(StreamSource::close);
                store.drop();
            }
        };
    }

    private static TableStore turnsSizes(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public long[] sizes(List<Range<Token>> ranges) {
                long[] sizes = store.sizes(ranges);
                for (int i = 0; i < sizes.length / 2; i++) {
                    long size = sizes[i];
                    sizes[i] = sizes[sizes.length - 1 - i];
                    sizes[sizes.length - 1 - i] = size;
                }
                return sizes;
            }
        };
    }

    // The receiver's

    private static class ForwardingSink implements StreamSink {
        final StreamSink sink;

        ForwardingSink(StreamSink sink) {
            this.sink = sink;
        }

        @Override
        public SliceWriter begin(int slice) throws IOException {
            return sink.begin(slice);
        }

        @Override
        public void verify() throws IOException {
            sink.verify();
        }

        @Override
        public boolean ingest() throws IOException {
            return sink.ingest();
        }

        @Override
        public void prepare() throws IOException {
            sink.prepare();
        }

        @Override
        public void close() {
            sink.close();
        }
    }

    private static class ForwardingWriter implements SliceWriter {
        final SliceWriter writer;

        ForwardingWriter(SliceWriter writer) {
            this.writer = writer;
        }

        @Override
        public void take(ByteBuffer block) throws IOException {
            writer.take(block);
        }

        @Override
        public void end() throws IOException {
            writer.end();
        }

        @Override
        public void close() {
            writer.close();
        }
    }

    private static TableStore receiving(TableStore store, UnaryOperator<StreamSink> mutation) {
        return new ForwardingStore(store) {
            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                return mutation.apply(store.receive(head, owned));
            }
        };
    }

    private static TableStore showsEachSlice(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                StreamHead one =
                        new StreamHead(
                                head.engine(),
                                head.format(),
                                head.table(),
                                head.columnFamily(),
                                1,
                                0);
                return new ForwardingSink(store.receive(head, owned)) {
                    @Override
                    public SliceWriter begin(int slice) throws IOException {
                        StreamSink alone = store.receive(one, owned);
                        SliceWriter other = alone.begin(0);
                        return new ForwardingWriter(sink.begin(slice)) {
                            @Override
                            public void take(ByteBuffer block) throws IOException {
                                other.take(block.duplicate());
                                writer.take(block);
                            }

                            @Override
                            public void end() throws IOException {
                                writer.end();
                                other.end();
                                alone.ingest();
                            }
                        };
                    }
                };
            }
        };
    }

    private static final class IngestsOnVerify extends ForwardingSink {
        IngestsOnVerify(StreamSink sink) {
            super(sink);
        }

        @Override
        public void verify() throws IOException {
            sink.verify();
            sink.ingest();
        }
    }

    private static final class IngestsOnClose extends ForwardingSink {
        private boolean verified;

        IngestsOnClose(StreamSink sink) {
            super(sink);
        }

        @Override
        public void verify() throws IOException {
            sink.verify();
            verified = true;
        }

        @Override
        public void close() {
            try {
                if (verified) sink.ingest();
            } catch (IOException e) {
                throw new AssertionError(e);
            } finally {
                verified = false;
                sink.close();
            }
        }
    }

    private static final class TakesTornSlices extends ForwardingSink {
        TakesTornSlices(StreamSink sink) {
            super(sink);
        }

        @Override
        public SliceWriter begin(int slice) throws IOException {
            return new ForwardingWriter(sink.begin(slice)) {
                private boolean over;

                @Override
                public void end() throws IOException {
                    over = true;
                    writer.end();
                }

                @Override
                public void close() {
                    try {
                        if (!over) end();
                    } catch (IOException e) {
                        throw new AssertionError(e);
                    }
                    writer.close();
                }
            };
        }
    }

    private static final class KeepsTornSlices extends ForwardingSink {
        private final Map<Integer, List<ByteBuffer>> kept = new HashMap<>();

        KeepsTornSlices(StreamSink sink) {
            super(sink);
        }

        @Override
        public SliceWriter begin(int slice) throws IOException {
            SliceWriter begun = sink.begin(slice);
            List<ByteBuffer> blocks = kept.computeIfAbsent(slice, each -> new ArrayList<>());
            for (ByteBuffer block : blocks) begun.take(block.duplicate());
            return new ForwardingWriter(begun) {
                @Override
                public void take(ByteBuffer block) throws IOException {
                    blocks.add(copy(block.duplicate()));
                    writer.take(block);
                }
            };
        }
    }

    private static final class PassesOverBadBlocks extends ForwardingSink {
        PassesOverBadBlocks(StreamSink sink) {
            super(sink);
        }

        @Override
        public SliceWriter begin(int slice) throws IOException {
            return new ForwardingWriter(sink.begin(slice)) {
                @Override
                public void take(ByteBuffer block) {
                    try {
                        writer.take(block);
                    } catch (IOException e) {
                        block.position(block.limit());
                    }
                }
            };
        }
    }

    private static final class TakesWithoutItsStore extends ForwardingSink {
        TakesWithoutItsStore(StreamSink sink) {
            super(sink);
        }

        @Override
        public SliceWriter begin(int slice) throws IOException {
            return new ForwardingWriter(sink.begin(slice)) {
                @Override
                public void take(ByteBuffer block) throws IOException {
                    try {
                        writer.take(block);
                    } catch (IllegalStateException e) {
                        block.position(block.limit());
                    }
                }
            };
        }
    }

    private static final class VerifiesWithoutItsStore extends ForwardingSink {
        VerifiesWithoutItsStore(StreamSink sink) {
            super(sink);
        }

        @Override
        public void verify() throws IOException {
            try {
                sink.verify();
            } catch (IllegalStateException e) {
                // The store is closed.
            }
        }
    }

    private static final class IngestsWithoutItsStore extends ForwardingSink {
        IngestsWithoutItsStore(StreamSink sink) {
            super(sink);
        }

        @Override
        public boolean ingest() throws IOException {
            try {
                return sink.ingest();
            } catch (IllegalStateException e) {
                // The store is closed.
                return false;
            }
        }
    }

    private static TableStore fillsInMissingSlices(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                return new ForwardingSink(store.receive(head, owned)) {
                    @Override
                    public void verify() throws IOException {
                        for (int slice = 0; slice < head.slices(); slice++)
                            try (SliceWriter writer = sink.begin(slice)) {
                                writer.end();
                            } catch (IllegalStateException e) {
                                // It is here.
                            }
                        sink.verify();
                    }
                };
            }
        };
    }

    private static TableStore ownsEverything(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                return store.receive(head, RangeTests.everything());
            }
        };
    }

    private static TableStore takesAnyTable(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                return store.receive(
                        new StreamHead(
                                head.engine(),
                                head.format(),
                                store.spec().metadata().id,
                                head.columnFamily(),
                                head.slices(),
                                head.bytes()),
                        owned);
            }
        };
    }
}
