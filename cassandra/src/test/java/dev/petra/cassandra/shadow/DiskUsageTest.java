// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import java.math.BigInteger;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class DiskUsageTest {
    private static DiskUsage.Disks disks(
            long files, long memtables, long free, @Nullable Long max) {
        return DiskUsage.Disks.of(
                BigInteger.valueOf(files),
                BigInteger.valueOf(memtables),
                BigInteger.valueOf(free),
                max);
    }

    /** What others have on the disks is none of Cassandra's room: of 1,000, they may have 500. */
    @Test
    void theRoomIsWhatCassandraHasAndWhatIsFree() {
        assertThat(disks(100, 0, 400, null).percentWith(0)).isEqualTo(20);
        assertThat(disks(100, 50, 400, null).percentWith(100)).isEqualTo(50);
    }

    /** {@code data_disk_usage_max_disk_size}. */
    @Test
    void theRoomMayBeLimited() {
        assertThat(disks(100, 0, 900, 200L).percentWith(50)).isEqualTo(75);
        assertThat(disks(100, 0, 100, 1_000L).percentWith(50)).isEqualTo(75);
    }
}
