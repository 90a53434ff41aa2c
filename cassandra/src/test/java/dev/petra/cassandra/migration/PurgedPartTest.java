// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.shadow.ShadowSource.Moment;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.SliceReader;
import dev.petra.engine.stream.SliceWriter;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ColumnFilter;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.db.rows.RowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.db.transform.FilteredRows;
import org.apache.cassandra.db.transform.Transformation;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A store in RocksDB that becomes another one, part by part. */
class PurgedPartTest {
    private static final int PARTITIONS = 400;
    private static final int WRITES = 20;
    private static final long NOW = UpdateBuilder.NOW + 10;
    private static final TestTable TABLE =
            TestTable.of(
                    "CREATE TABLE t (k text, c int, s text STATIC, v text, w int, m map<text,"
                            + " text>, PRIMARY KEY (k, c))");
    private static final ColumnFilter ALL = ColumnFilter.all(TABLE.metadata());

    @TempDir Path directory;

    private StorageEngine engine;
    private int opened;

    @BeforeEach
    void open() {
        engine = StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")));
    }

    @AfterEach
    void close() {
        engine.close();
    }

    private TableStore store() {
        return engine.openStore(TABLE.spec(directory.resolve(Integer.toString(++opened))));
    }

    /**
     * What is left shows the same as what Cassandra's purge leaves, also of what is written later
     * with an older timestamp.
     */
    @Test
    void whatIsLeftIsWhatCassandrasPurgeLeaves() throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        TableStore from = store();
        Map<String, List<PartitionUpdate>> written = new HashMap<>();
        for (int i = 0; i < PARTITIONS * WRITES; i++) {
            String key = "k" + random.nextInt(PARTITIONS);
            PartitionUpdate update = update(random, key, i);
            from.write(update);
            written.computeIfAbsent(key, any -> new ArrayList<>()).add(update);
            if (random.nextInt(2_000) == 0) from.flush();
        }
        Moment moment = new Moment(NOW, NOW - 5);
        TableStore into = store();
        assertThat(takeAll(from, into, moment)).isGreaterThan(5);

        int removed = 0;
        for (Map.Entry<String, List<PartitionUpdate>> each : written.entrySet()) {
            PartitionUpdate all = merged(each.getValue());
            PartitionUpdate expected = purged(all, moment);
            PartitionUpdate actual = read(into, each.getKey());
            assertThat(shown(actual)).as("seed %s", seed).isEqualTo(shown(expected));
            assertThat(shown(actual)).as("seed %s", seed).isEqualTo(shown(all));
            for (int i = 0; i < 10; i++) {
                PartitionUpdate late = late(random, each.getKey());
                String with = shown(merged(List.of(expected, late)));
                assertThat(shown(merged(List.of(actual, late))))
                        .as("seed %s", seed)
                        .isEqualTo(with);
                if (!with.equals(shown(merged(List.of(all, late))))) removed++;
            }
        }
        // Else it would not matter whether anything was purged.
        assertThat(removed).isGreaterThan(PARTITIONS / 10);
    }

    /** As {@link Promotion} does it. Returns how many parts there were. */
    private int takeAll(TableStore from, TableStore into, Moment moment) throws Exception {
        Token minimum = TABLE.metadata().partitioner.getMinimumToken();
        List<Range<Token>> ring = List.of(new Range<>(minimum, minimum));
        DecoratedKey last = null;
        Set<DecoratedKey> ends = new HashSet<>();
        while (true) {
            TableStore part = store();
            PurgedPart read =
                    PurgedPart.read(
                            from,
                            part,
                            moment,
                            last,
                            5_000,
                            bytes -> assertThat(bytes).isNotNegative());
            if (read.last() == null) {
                assertThat(read.bytes()).isZero();
                assertThat(part.isEmpty()).isTrue();
                part.drop();
                return ends.size();
            }
            assertThat(ends.add(read.last())).isTrue();
            last = read.last();
            if (read.bytes() > 0) ingest(part, into, ring, read.bytes());
            part.drop();
        }
    }

    private static void ingest(
            TableStore part, TableStore into, List<Range<Token>> ring, long bytes)
            throws Exception {
        try (StreamSource source = part.send(List.of(new SliceRanges(ring, bytes)));
                StreamSink sink = into.receive(source.head(), ring)) {
            try (SliceReader reader = source.open(0);
                    SliceWriter writer = sink.begin(0)) {
                for (ByteBuffer block = reader.next(); block != null; block = reader.next())
                    writer.take(block);
                writer.end();
            }
            do sink.prepare();
            while (sink.ingest());
        }
    }

    private static PartitionUpdate update(Random random, String key, int unique) {
        UpdateBuilder update = TABLE.update(key);
        for (int i = random.nextInt(2); i >= 0; i--) {
            int ttl = random.nextInt(4) == 0 ? 1 + random.nextInt(12) : 0;
            // No two expiring cells of one timestamp, of which either may be kept.
            update.at(((long) random.nextInt(30) << 20) + unique)
                    .ttl(ttl)
                    .now(NOW - random.nextInt(12));
            int c = random.nextInt(4);
            switch (random.nextInt(12)) {
                case 0 -> update.deletePartition();
                case 1, 2 -> update.deleteRange(TABLE.from(c), TABLE.to(c + random.nextInt(3)));
                case 3 -> update.deleteRow(c);
                case 4 -> update.row(c).unset("v").end();
                case 5 -> update.row(c).remove("m", "x").end();
                case 6 -> update.row(c).clearBefore("m").put("m", "y", "z").end();
                case 7 -> update.staticRow().set("s", "s" + random.nextInt(3)).end();
                case 8 -> update.staticRow().unset("s").end();
                case 9 -> update.row(c).liveness().end();
                default -> update.row(c).liveness().set("v", "v" + unique).put("m", "x", "y").end();
            }
        }
        return update.build();
    }

    private static PartitionUpdate late(Random random, String key) {
        UpdateBuilder update = TABLE.update(key).at((long) random.nextInt(30) << 20).now(NOW);
        if (random.nextInt(5) == 0) return update.staticRow().set("s", "late").end().build();
        return update.row(random.nextInt(4)).set("v", "late").put("m", "x", "late").end().build();
    }

    private static PartitionUpdate merged(List<PartitionUpdate> updates) {
        List<UnfilteredRowIterator> parts = new ArrayList<>();
        for (PartitionUpdate each : updates) parts.add(each.unfilteredIterator());
        try (UnfilteredRowIterator all = UnfilteredRowIterators.merge(parts)) {
            return PartitionUpdate.fromIterator(all, ALL);
        }
    }

    private static PartitionUpdate purged(PartitionUpdate all, Moment moment) {
        try (UnfilteredRowIterator left =
                Transformation.apply(all.unfilteredIterator(), moment.purge(TABLE.metadata()))) {
            return PartitionUpdate.fromIterator(left, ALL);
        }
    }

    private static PartitionUpdate read(TableStore store, String key) {
        @Nullable UnfilteredRowIterator found = store.read(TABLE.key(key), Slices.ALL, ALL, false);
        try (UnfilteredRowIterator rows =
                found == null
                        ? EmptyIterators.unfilteredRow(TABLE.metadata(), TABLE.key(key), false)
                        : found) {
            return PartitionUpdate.fromIterator(rows, ALL);
        }
    }

    /** What a client sees. */
    private static String shown(PartitionUpdate content) {
        StringBuilder shown = new StringBuilder();
        try (RowIterator rows = FilteredRows.filter(content.unfilteredIterator(), NOW)) {
            if (!rows.staticRow().isEmpty())
                shown.append(rows.staticRow().toString(TABLE.metadata(), true, true));
            while (rows.hasNext())
                shown.append(rows.next().toString(TABLE.metadata(), true, true)).append('\n');
        }
        return shown.toString();
    }
}
