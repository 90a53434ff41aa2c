// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.RangeTests;
import dev.petra.engine.conformance.StreamTests;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamHead;
import dev.petra.engine.stream.StreamSink;
import dev.petra.engine.stream.StreamSource;
import java.util.Collection;
import java.util.List;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

/** What an engine says it leaves out, it must refuse by name. */
final class CapabilitiesTest {
    private static final Capabilities NONE = new Capabilities(false, false, false, false);

    private static TableStore refuses(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public StreamSource send(List<SliceRanges> slices) {
                throw new UnsupportedOperationException("The memory engine has no send");
            }

            @Override
            public StreamSink receive(StreamHead head, Collection<Range<Token>> owned) {
                throw new UnsupportedOperationException("The memory engine has no receive");
            }

            @Override
            public long[] sizes(List<Range<Token>> ranges) {
                throw new UnsupportedOperationException("The memory engine has no sizes");
            }

            @Override
            public void retainRanges(Collection<Range<Token>> owned) {
                throw new UnsupportedOperationException("The memory engine has no retainRanges");
            }
        };
    }

    @Test
    void refusingByNameIsEnough() {
        try (EngineUnderTest kit =
                new EngineUnderTest(() -> new MutantEngine(CapabilitiesTest::refuses), NONE)) {
            ((StreamTests) () -> kit).slicesArriveAsTheyWere();
            ((RangeTests) () -> kit).keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight();
        }
    }

    @Test
    void doingItSilentlyIsNot() {
        EngineUnderTest kit = new EngineUnderTest(() -> new MutantEngine(store -> store), NONE);
        RangeTests ranges = () -> kit;
        assertThatThrownBy(ranges::keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight)
                .isInstanceOf(AssertionError.class);
        StreamTests streams = () -> kit;
        assertThatThrownBy(streams::slicesArriveAsTheyWere).isInstanceOf(AssertionError.class);
        kit.close();
    }
}
