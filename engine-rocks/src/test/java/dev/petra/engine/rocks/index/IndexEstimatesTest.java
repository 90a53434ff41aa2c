// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.index;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.index.TermEntry;
import dev.petra.engine.rocks.Tables;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.UUID;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** How many entries a term is thought to have, by which a query chooses between its indexes. */
class IndexEstimatesTest extends IndexFixture {
    private static final int MANY = 20_000;

    private void add(UUID index, String term, int rows) {
        for (int row = 0; row < rows; row++)
            store.indexes()
                    .add(
                            Tables.key(TABLE, row),
                            List.of(
                                    new TermEntry(
                                            index, ByteBufferUtil.bytes(term), Clustering.EMPTY)));
    }

    private long estimated(UUID index, @Nullable String from, @Nullable String to) {
        return store.indexes().entries(index, term(from), true, term(to), true);
    }

    private static @Nullable ByteBuffer term(@Nullable String text) {
        return text == null ? null : ByteBufferUtil.bytes(text);
    }

    /** All of them, or none, could be in write buffers. */
    @Test
    void manyAreToldFromFewInMemoryAndInFiles() {
        store.indexes().define(INDEX);
        store.indexes().define(LATER);
        assertThat(estimated(INDEX, null, null)).isZero();
        add(INDEX, "many", MANY);
        add(INDEX, "some", 100);
        add(LATER, "few", 100);
        for (boolean isFlushed : new boolean[] {false, true}) {
            if (isFlushed) store.flush();
            long many = estimated(INDEX, "many", "many");
            assertThat(many).isBetween(MANY / 10L, 10L * MANY);
            assertThat(estimated(INDEX, "some", "some")).isLessThan(many / 2);
            assertThat(estimated(LATER, "few", "few")).isLessThan(many / 2);
            assertThat(estimated(LATER, null, null)).isLessThan(many / 2);
            // Ranges.
            assertThat(estimated(INDEX, "many", null)).isGreaterThan(many / 2);
            assertThat(estimated(INDEX, null, null)).isGreaterThan(many / 2);
            assertThat(estimated(INDEX, "n", "z")).isLessThan(many / 2);
        }
        store.indexes().drop(LATER);
        store.indexes().define(LATER);
        assertThat(estimated(LATER, null, null)).isLessThan(1_000);
    }
}
