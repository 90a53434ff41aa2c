// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** What a receiver refuses is refused by the sender, before it sends any of it. */
class SliceColumnsTest {
    private static final int MOST_TYPE_BYTES = 65_535;

    @Test
    void asManyColumnsAsAReceiverTakes() throws Exception {
        sent(columns(SliceColumns.MOST_COLUMNS, 1));
        refused(columns(SliceColumns.MOST_COLUMNS + 1, 1), "65537 columns");
    }

    @Test
    void aTypeAsLongAsAReceiverTakes() throws Exception {
        sent(columns(3, MOST_TYPE_BYTES));
        refused(columns(3, MOST_TYPE_BYTES + 1), "the type of column 000");
    }

    @Test
    void asManyBytesAsAReceiverTakes() throws Exception {
        // Each column has two lengths of two bytes, a name of three and its type.
        int columns = 300;
        int type = (SliceColumns.MOST_BYTES - Integer.BYTES) / columns - 7;
        sent(columns(columns, type));
        refused(columns(columns, type + 1), "the types of its columns");
    }

    private static SliceColumns columns(int count, int typeBytes) {
        List<String> names = IntStream.range(0, count).mapToObj("%03d"::formatted).toList();
        return new SliceColumns(names, Collections.nCopies(count, "t".repeat(typeBytes)));
    }

    private static void sent(SliceColumns columns) throws IOException {
        ByteBuffer block = columns.block("ks.t");
        assertThat(SliceColumns.decode(block.position(1))).isEqualTo(columns);
    }

    private static void refused(SliceColumns columns, String what) {
        assertThatThrownBy(() -> columns.block("ks.t"))
                .isInstanceOf(IOException.class)
                .hasMessageContainingAll("ks.t", what, "-Dpetra.stream.slices=false");
    }
}
