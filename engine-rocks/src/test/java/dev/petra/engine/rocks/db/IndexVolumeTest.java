// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.rocks.Logged;
import org.junit.jupiter.api.Test;

class IndexVolumeTest {
    private static final long MIB = 1 << 20;

    @Test
    void thatIndexesAreCutIsLoggedOnce() {
        IndexVolume volume = new IndexVolume(64 * MIB);
        assertThat(Logged.by(IndexVolume.class, () -> volume.add(32 * MIB))).isEmpty();
        assertThat(volume.isLarge()).isFalse();
        assertThat(
                        Logged.by(
                                IndexVolume.class,
                                () -> {
                                    volume.add(MIB);
                                    volume.add(MIB);
                                    volume.add(-20 * MIB);
                                    volume.add(20 * MIB);
                                }))
                .singleElement()
                .asString()
                .contains("33 MiB", "32 MiB", "'memory'");
        assertThat(volume.isLarge()).isTrue();
    }
}
