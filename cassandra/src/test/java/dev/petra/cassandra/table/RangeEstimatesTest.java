// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RangeEstimatesTest {
    private static final TableMetadataRef TABLE = TestTables.reference();

    @TempDir Path directory;

    /** How many ranges the store was asked for. */
    private int read;

    private boolean isShut;
    private long keys = 1_000;
    private long bytes = 1_000_000;

    private EngineMemtable table() {
        TableStore store =
                (TableStore)
                        Proxy.newProxyInstance(
                                TableStore.class.getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "isShut" -> isShut;
                                            case "statistics" ->
                                                    new StoreStatistics(
                                                            keys, keys, bytes, bytes, 0, 0, 0, 0);
                                            case "estimate" -> new RangeEstimate(++read, 10);
                                            default ->
                                                    throw new UnsupportedOperationException(
                                                            method.getName());
                                        });
        TableGenerations stores =
                TableGenerations.open("t", TABLE, FileEngine::new, List.of(directory), Disk.REAL);
        Generation generation = Generation.of(stores, 1, store);
        return (EngineMemtable)
                Proxy.newProxyInstance(
                        EngineMemtable.class.getClassLoader(),
                        new Class<?>[] {EngineMemtable.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("generation")) return generation;
                            throw new UnsupportedOperationException(method.getName());
                        });
    }

    private static List<Range<Token>> ranges(int count) {
        List<Range<Token>> ranges = new ArrayList<>();
        for (int i = 0; i < count; i++)
            ranges.add(new Range<>(new LongToken(i), new LongToken(i + 1)));
        return ranges;
    }

    /** Cassandra asks for all ranges of all tables every five minutes, on one thread. */
    @Test
    void aTableAtRestIsReadOnce() {
        EngineMemtable table = table();
        var first = RangeEstimates.of(table, ranges(2));
        assertThat(first).hasSize(2);
        assertThat(RangeEstimates.of(table, ranges(2))).isEqualTo(first);
        assertThat(read).isEqualTo(2);
        // One that came with a change of the ring.
        assertThat(RangeEstimates.of(table, ranges(3))).hasSize(3).containsAllEntriesOf(first);
        assertThat(read).isEqualTo(3);
    }

    /** What was read in all when so many ranges have been asked for once more. */
    private int readWith(EngineMemtable table, int count) {
        assertThat(RangeEstimates.of(table, ranges(count))).hasSize(count);
        return read;
    }

    @Test
    void aTableThatChangedByMoreThanATwentiethIsReadAgain() {
        EngineMemtable table = table();
        assertThat(readWith(table, 2)).isEqualTo(2);
        keys = 1_050;
        assertThat(readWith(table, 2)).isEqualTo(2);
        keys = 1_051;
        assertThat(readWith(table, 2)).isEqualTo(4);
        bytes = 900_000;
        assertThat(readWith(table, 2)).isEqualTo(6);
    }

    /** The ranges of the ring change, and a table at rest is never read again. */
    @Test
    void noMoreThanSomeThousandRangesAreRemembered() {
        EngineMemtable table = table();
        assertThat(readWith(table, 5_000)).isEqualTo(5_000);
        assertThat(readWith(table, 1)).isEqualTo(5_001);
    }

    /** Its log may take long to replay, and Cassandra's other tasks of that thread would wait. */
    @Test
    void aStoreThatIsOpenedAnewIsLeftOut() {
        EngineMemtable table = table();
        isShut = true;
        assertThat(RangeEstimates.of(table, ranges(2))).isEmpty();
        assertThat(read).isZero();
        isShut = false;
        assertThat(RangeEstimates.of(table, ranges(2))).hasSize(2);
    }

    /** Who splits a table asks for any ranges, once. */
    @Test
    void oneRangeIsReadEachTime() {
        EngineMemtable table = table();
        Range<Token> range = ranges(1).get(0);
        assertThat(RangeEstimates.of(table, range)).isEqualTo(new RangeEstimate(1, 10));
        assertThat(RangeEstimates.of(table, range)).isEqualTo(new RangeEstimate(2, 10));
    }
}
