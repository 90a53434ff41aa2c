// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import org.junit.jupiter.api.Test;

/** The threads that do this beside each other are in {@code SliceStagesStress}. */
class SliceStagesTest {
    private final SliceStages<String> slices = new SliceStages<>("ks.t", 2);

    @Test
    void aSliceIsTakenOnce() throws IOException {
        for (int slice : new int[] {1, 0}) {
            slices.begin(slice);
            assertThatThrownBy(() -> slices.begin(slice)).isInstanceOf(IllegalStateException.class);
            slices.staged(slice, "slice " + slice);
            assertThatThrownBy(() -> slices.begin(slice)).isInstanceOf(IllegalStateException.class);
        }
        assertThat(slices.all()).containsExactly("slice 0", "slice 1");
    }

    @Test
    void aSliceThatWasTornComesAgain() throws IOException {
        slices.begin(1);
        slices.staged(1, "slice 1");
        slices.begin(0);
        assertThatThrownBy(slices::all)
                .isInstanceOf(IOException.class)
                .hasMessage("Slice 0 for ks.t: it has not come");
        slices.torn(0);
        assertThatThrownBy(slices::all).isInstanceOf(IOException.class);
        slices.begin(0);
        slices.staged(0, "again");
        assertThat(slices.all()).containsExactly("again", "slice 1");
    }
}
