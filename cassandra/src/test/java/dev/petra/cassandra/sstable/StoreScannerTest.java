// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.TestTables;
import dev.petra.engine.RangeEstimate;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import org.apache.cassandra.db.EmptyIterators;
import org.apache.cassandra.dht.Murmur3Partitioner.LongToken;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;

class StoreScannerTest {
    private static final TableMetadata TABLE = TestTables.reference().get();

    /** The ranges of each scan of the store. */
    private final List<Object> scans = new ArrayList<>();

    private TableStore store() {
        return (TableStore)
                Proxy.newProxyInstance(
                        TableStore.class.getClassLoader(),
                        new Class<?>[] {TableStore.class},
                        (proxy, method, arguments) -> {
                            if (!method.getName().equals("scanAside"))
                                throw new UnsupportedOperationException(method.getName());
                            scans.add(arguments[0]);
                            return EmptyIterators.unfilteredPartition(TABLE);
                        });
    }

    /** A scan of each was open from the beginning of a validation to its end. */
    @Test
    void allRangesAreOneScan() {
        List<Range<Token>> ranges =
                List.of(
                        new Range<Token>(new LongToken(1), new LongToken(2)),
                        new Range<Token>(new LongToken(3), new LongToken(4)));
        List<RangeEstimate> estimates =
                List.of(new RangeEstimate(10, 100), new RangeEstimate(5, 200));
        try (StoreScanner scanner = new StoreScanner(store(), TABLE, ranges, estimates)) {
            assertThat(scanner.getLengthInBytes()).isEqualTo(2_000);
            assertThat(scanner.hasNext()).isFalse();
        }
        assertThat(scans).containsExactly(ranges);
    }
}
