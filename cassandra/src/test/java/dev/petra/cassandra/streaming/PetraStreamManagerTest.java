// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.table.StreamGuards;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How long a stream is guarded, and what for. */
class PetraStreamManagerTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");
    private static final List<Range<Token>> ALL =
            List.of(
                    new Range<>(
                            TABLE.partitioner.getMinimumToken(),
                            TABLE.partitioner.getMinimumToken()));

    private final List<String> finished = new ArrayList<>();
    private long now = 1000;
    private final StreamGuards guards = new StreamGuards(() -> now);

    private OutgoingStream stream(String name) {
        return (OutgoingStream)
                Proxy.newProxyInstance(
                        OutgoingStream.class.getClassLoader(),
                        new Class<?>[] {OutgoingStream.class},
                        (proxy, method, arguments) -> {
                            assertThat(method.getName()).isEqualTo("finish");
                            finished.add(name);
                            return null;
                        });
    }

    private List<OutgoingStream> create(
            Supplier<Collection<OutgoingStream>> sstables, Supplier<List<OutgoingStream>> store) {
        return PetraStreamManager.create(guards.begin(ALL, () -> false), sstables, store);
    }

    private boolean mayPurge() {
        return guards.mayPurge(() -> true);
    }

    private boolean isGuarded() {
        now++;
        return guards.gcBefore() != now;
    }

    @Test
    void purgesAreForbiddenUntilAllOfTheStoreIsSent() {
        List<OutgoingStream> streams =
                create(
                        () -> {
                            assertThat(mayPurge()).isFalse();
                            return List.of(stream("sstable"));
                        },
                        () -> List.of(stream("a"), stream("b")));
        assertThat(streams).hasSize(3);
        streams.get(1).finish();
        streams.get(1).finish();
        streams.get(0).finish();
        assertThat(mayPurge()).isFalse();
        streams.get(2).finish();
        assertThat(mayPurge()).isTrue();
        assertThat(isGuarded()).isFalse();
        assertThat(finished).containsExactly("a", "sstable", "b");
    }

    /** Cassandra fails a session for exceptions only; for an error its peer would wait for ever. */
    @Test
    void aDiskThatFailsFailsTheSession() {
        assertThatThrownBy(
                        () ->
                                create(
                                        () -> List.of(stream("sstable")),
                                        () -> {
                                            throw new FSWriteError(
                                                    new IOException("on purpose"), "disk");
                                        }))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("on purpose");
        assertThat(finished).containsExactly("sstable");
        assertThat(mayPurge()).isTrue();
        assertThat(isGuarded()).isFalse();
    }

    @Test
    void aStoreAloneMayBePurgedOfWhatWasOldEnough() {
        create(
                List::of,
                () -> {
                    assertThat(mayPurge()).isTrue();
                    assertThat(isGuarded()).isTrue();
                    return List.of(stream("a"));
                });
        assertThat(mayPurge()).isTrue();
        assertThat(isGuarded()).isTrue();
    }

    @Test
    void anEmptyStoreNeedsNoGuard() {
        create(() -> List.of(stream("sstable")), List::of);
        assertThat(isGuarded()).isFalse();
        assertThat(mayPurge()).isTrue();
    }

    @Test
    void whatCannotBeMadeIsNotGuarded() {
        Supplier<List<OutgoingStream>> fails =
                () -> {
                    throw new IllegalStateException("on purpose");
                };
        assertThatThrownBy(() -> create(fails::get, List::of)).hasMessage("on purpose");
        assertThat(isGuarded()).isFalse();
        assertThatThrownBy(() -> create(() -> List.of(stream("sstable")), fails))
                .hasMessage("on purpose");
        assertThat(isGuarded()).isFalse();
        assertThat(finished).containsExactly("sstable");
    }

    @Test
    void aCleanupWhileTheStoreIsReadFailsTheStreams() {
        assertThatThrownBy(
                        () ->
                                create(
                                        () -> List.of(stream("sstable")),
                                        () -> {
                                            guards.cleanup(List.of(), () -> {});
                                            return List.of(stream("a"), stream("b"));
                                        }))
                .isInstanceOf(IllegalStateException.class)
                .hasMessageContaining("cleanup");
        assertThat(finished).containsExactlyInAnyOrder("sstable", "a", "b");
        assertThat(isGuarded()).isFalse();
        // Of an empty store it is not known whether it was.
        assertThatThrownBy(
                        () ->
                                create(
                                        List::of,
                                        () -> {
                                            guards.cleanup(List.of(), () -> {});
                                            return List.of();
                                        }))
                .hasMessageContaining("cleanup");
        assertThat(isGuarded()).isFalse();
        create(
                List::of,
                () -> {
                    guards.cleanup(ALL, () -> {});
                    return List.of(stream("c"));
                });
        assertThat(finished).hasSize(3);
    }

    /** Cassandra then finishes none of the streams that were made for it meanwhile. */
    @Test
    void aSessionThatFailedHasEnded() {
        StreamSession session = new TestSession();
        BooleanSupplier ended = PetraStreamManager.ended(session);
        assertThat(ended.getAsBoolean()).isFalse();
        session.state(StreamSession.State.FAILED);
        assertThat(ended.getAsBoolean()).isTrue();
    }

    /** As where the streams of the plan's next keyspace cannot be made. */
    @Test
    void aSessionThatNobodyHasAnyMoreHasEnded() throws InterruptedException {
        BooleanSupplier ended = PetraStreamManager.ended(new TestSession());
        for (int i = 0; i < 100 && !ended.getAsBoolean(); i++) {
            System.gc();
            Thread.sleep(10);
        }
        assertThat(ended.getAsBoolean()).isTrue();
    }

    private static PartitionUpdate.SimpleBuilder update(long timestamp) {
        return PartitionUpdate.simpleBuilder(TABLE, 1).timestamp(timestamp).nowInSec(1);
    }

    /**
     * The migration of an SSTable ends while a stream reads the table. The store then holds the row
     * and its deletion, which is past gc_grace: but the SSTable that is sent has the row as well.
     */
    @Test
    void aDeletedRowDoesNotComeBackWhereItsSSTableIsSent(@TempDir Path directory)
            throws IOException {
        TableMetadataRef reference = TableMetadataRef.forOfflineTools(TABLE);
        PartitionUpdate.SimpleBuilder row = update(5);
        row.row().add("v", 7);
        PartitionUpdate.SimpleBuilder deletion = update(10);
        deletion.row().delete();
        AtomicBoolean migrated = new AtomicBoolean();
        now = System.currentTimeMillis() / 1000;
        try (StorageEngine engine =
                        StorageEngines.open(
                                "rocks", new EngineSettings(Map.of("memory", "64MiB")));
                TableStore from =
                        engine.openStore(
                                new StoreSpec(
                                        directory.resolve("from"),
                                        "t",
                                        1,
                                        reference,
                                        () -> guards.mayPurge(migrated::get),
                                        guards::gcBefore,
                                        () -> true,
                                        true));
                TableStore to =
                        engine.openStore(
                                new StoreSpec(directory.resolve("to"), "t", 1, reference))) {
            from.write(deletion.build());
            List<StreamSource> sent = new ArrayList<>();
            List<OutgoingStream> streams =
                    create(
                            () -> {
                                to.write(row.build());
                                return List.of(stream("sstable"));
                            },
                            () -> {
                                List<SliceRanges> plan = SliceStream.plan(engine, from, ALL);
                                sent.add(from.send(plan));
                                return List.copyOf(SliceStream.of(sent.get(0), plan, () -> {}));
                            });
            // The stream is read later, and slowly.
            from.write(row.build());
            migrated.set(true);
            from.compact(List.of());
            receive(sent.get(0), to);
            assertThat(isThere(to)).isFalse();
            streams.forEach(OutgoingStream::finish);
            from.compact(List.of());
            assertThat(SliceStream.plan(engine, from, ALL)).as("purged since").isEmpty();
        }
    }

    private static void receive(StreamSource out, TableStore to) throws IOException {
        try (StreamSink in = to.receive(out.head(), ALL)) {
            for (int slice = 0; slice < out.head().slices(); slice++)
                try (SliceReader reader = out.open(slice);
                        SliceWriter writer = in.begin(slice)) {
                    for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                        writer.take(block);
                    writer.end();
                }
            while (in.ingest()) in.prepare();
        }
    }

    private static boolean isThere(TableStore store) {
        try (UnfilteredRowIterator rows =
                store.read(
                        update(0).build().partitionKey(),
                        Slices.ALL,
                        ColumnFilter.all(TABLE),
                        false)) {
            while (rows != null && rows.hasNext())
                if (((org.apache.cassandra.db.rows.Row) rows.next()).hasLiveData(1000, false))
                    return true;
            return false;
        }
    }
}
