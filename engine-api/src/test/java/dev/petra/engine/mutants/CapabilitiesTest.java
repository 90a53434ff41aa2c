// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.StreamTests;
import dev.petra.engine.stream.IncomingParts;
import dev.petra.engine.stream.OutgoingParts;
import dev.petra.engine.stream.StreamManifest;
import java.util.Collection;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.junit.jupiter.api.Test;

/** What an engine says it leaves out, it must refuse by name. */
final class CapabilitiesTest {
    private static final Capabilities NONE = new Capabilities(false, false, false);

    private static TableStore refuses(TableStore store) {
        return new ForwardingStore(store) {
            @Override
            public OutgoingParts streamOut(Collection<Range<Token>> ranges) {
                throw new UnsupportedOperationException("The memory engine has no streamOut");
            }

            @Override
            public IncomingParts streamIn(StreamManifest manifest, Collection<Range<Token>> owned) {
                throw new UnsupportedOperationException("The memory engine has no streamIn");
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
            StreamTests tests = () -> kit;
            tests.whatIsStreamedArrivesAsItWas();
            tests.keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight();
        }
    }

    @Test
    void doingItSilentlyIsNot() {
        StreamTests tests;
        EngineUnderTest kit = new EngineUnderTest(() -> new MutantEngine(store -> store), NONE);
        tests = () -> kit;
        assertThatThrownBy(tests::keepingRangesExcludesTheirLeftTokensAndIncludesTheirRight)
                .isInstanceOf(AssertionError.class);
        kit.close();
    }
}
