// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.compaction;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.conformance.UpdateBuilder;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.format.ByteSink;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.cassandra.db.ClusteringBound;
import org.apache.cassandra.db.DataRange;
import org.apache.cassandra.db.DecoratedKey;
import org.apache.cassandra.db.Digest;
import org.apache.cassandra.db.Slice;
import org.apache.cassandra.db.Slices;
import org.apache.cassandra.db.filter.ClusteringIndexSliceFilter;
import org.apache.cassandra.db.partitions.UnfilteredPartitionIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterator;
import org.apache.cassandra.db.rows.UnfilteredRowIterators;
import org.apache.cassandra.dht.Bounds;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.utils.Hex;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Of two replicas of the same data, one may have removed what newer range tombstones hide and the
 * other not: what they answer must have the same digest, or each read of the partition would be
 * repaired, and each repair would stream it, for ever.
 */
class SupersededRangesTest {
    private static final int HISTORIES = 300;

    private static final List<BigDecimal> DECIMALS =
            List.of(new BigDecimal("1"), new BigDecimal("2"), new BigDecimal("3.5"));

    @TempDir Path directory;

    private final TestTable table =
            TestTable.of(
                    "CREATE TABLE t (k int, c int, d decimal, v text, PRIMARY KEY (k, c, d))"
                            + " WITH CLUSTERING ORDER BY (c DESC, d ASC)");
    private final long seed = Long.getLong("petra.seed", System.nanoTime());
    private final Random random = new Random(seed);

    /** Whether equal decimals are written in several forms. */
    private boolean hasForms;

    @Test
    void whatIsReadHasTheSameDigestAfterTheRemoval() throws Exception {
        long removed = 0;
        long markers = 0;
        try (StorageEngine engine = Tables.engine(Map.of("memory", "32MiB"))) {
            TableStore store = engine.openStore(table.spec(directory.resolve("1")));
            for (int history = 0; history < HISTORIES; history++) {
                DecoratedKey key = table.key(history);
                boolean forms = history % 4 == 0;
                hasForms = forms;
                for (int write = 2 + random.nextInt(20); write > 0; write--)
                    store.write(update(key).build());
                hasForms = false;
                List<Slices> slices = new ArrayList<>(List.of(Slices.ALL));
                // With a bound of its own a read shows its form where the written one is gone.
                for (int i = 0; i < 4 && !forms; i++) slices.add(table.slices(slice()));
                List<String> before = answers(store, key, slices);
                ByteSink position = new ByteSink();
                Tables.context(store).partitionKeys().put(position, key);
                SupersededRanges ranges =
                        new SupersededRanges(
                                Tables.context(store), new DataFiles(Tables.context(store)));
                removed +=
                        ranges.remove(
                                Tables.context(store).database(),
                                ranges.find(position.copy(0, position.position())));
                assertThat(answers(store, key, slices))
                        .as("seed %d, history %d", seed, history)
                        .isEqualTo(before);
                markers += before.stream().filter(answer -> answer.contains("Marker")).count();
            }
        }
        assertThat(removed).as("seed %d", seed).isGreaterThan(HISTORIES);
        assertThat(markers).as("seed %d", seed).isGreaterThan(HISTORIES);
    }

    private UpdateBuilder update(DecoratedKey key) {
        // So few that there are ties, also of another local time.
        UpdateBuilder update =
                table.update(key)
                        .at(1 + random.nextInt(8))
                        .now(UpdateBuilder.NOW + random.nextInt(3));
        int c = random.nextInt(6);
        BigDecimal d = decimal();
        switch (random.nextInt(12)) {
            case 0 -> update.row(c, d).liveness().set("v", "v" + random.nextInt(9)).end();
            case 1 -> update.row(c, d).deletion().end();
            case 2 -> {
                if (random.nextInt(4) == 0) update.at(random.nextInt(4)).deletePartition();
            }
            default -> update.deleteRange(slice());
        }
        return update;
    }

    private BigDecimal decimal() {
        BigDecimal decimal = DECIMALS.get(random.nextInt(DECIMALS.size()));
        return hasForms && random.nextBoolean() ? decimal.setScale(3) : decimal;
    }

    private Slice slice() {
        while (true) {
            Slice slice =
                    Slice.make(
                            bound(random.nextBoolean(), true), bound(random.nextBoolean(), false));
            if (!slice.isEmpty(table.metadata().comparator)) return slice;
        }
    }

    private ClusteringBound<?> bound(boolean inclusive, boolean start) {
        Object[] prefix =
                switch (random.nextInt(8)) {
                    case 0 -> new Object[] {};
                    case 1, 2, 3 -> new Object[] {random.nextInt(6)};
                    default -> new Object[] {random.nextInt(6), decimal()};
                };
        if (prefix.length == 0) return start ? ClusteringBound.BOTTOM : ClusteringBound.TOP;
        if (start) return inclusive ? table.from(prefix) : table.after(prefix);
        return inclusive ? table.to(prefix) : table.before(prefix);
    }

    /** Of reads and of scans, both ways, and of a merge with what has nothing. */
    private List<String> answers(TableStore store, DecoratedKey key, List<Slices> slices) {
        List<String> answers = new ArrayList<>();
        for (Slices each : slices)
            for (boolean reversed : new boolean[] {false, true}) {
                answers.add(digest(store.read(key, each, table.all(), reversed)));
                answers.add(Tables.text(store.read(key, each, table.all(), reversed)));
                DataRange range =
                        new DataRange(
                                new Bounds<>(key, key),
                                new ClusteringIndexSliceFilter(each, reversed));
                try (UnfilteredPartitionIterator all = store.scan(range, table.all())) {
                    if (all.hasNext()) answers.add(digest(all.next()));
                }
            }
        return answers;
    }

    private static String digest(UnfilteredRowIterator rows) {
        if (rows == null) return "";
        try (rows) {
            Digest digest = Digest.forReadResponse();
            UnfilteredRowIterators.digest(rows, digest, MessagingService.current_version);
            return Hex.bytesToHex(digest.digest());
        }
    }
}
