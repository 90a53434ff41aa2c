// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class WorkloadTest {
    private static List<String> names() {
        return Workload.names();
    }

    @ParameterizedTest
    @MethodSource("names")
    void valuesAreMadeFromTheNumberAlone(String name) {
        Workload workload = Workload.of(name, 0.1);
        Object[] row = workload.row(7, 3);
        assertThat(row).hasSameSizeAs(workload.columns()).isEqualTo(workload.row(7, 3));
        assertThat(row).isNotEqualTo(workload.row(8, 3));
        if (workload.columns().size() > 2) assertThat(row).isNotEqualTo(workload.row(7, 4));
        assertThat(row[0]).isEqualTo(workload.key(7));
        assertThat(workload.insert()).contains("VALUES (?" + ", ?".repeat(row.length - 1) + ")");
        assertThat(workload.rows()).isPositive();
    }

    @Test
    void sizesAreThePublishedOnes() {
        long emp = 0;
        for (Object value : Workload.of("emp", 1).row(1, 0))
            emp += value instanceof ByteBuffer bytes ? bytes.remaining() : 5;
        assertThat(emp).isBetween(6000L, 6020L);
        String words =
                StandardCharsets.US_ASCII
                        .decode((ByteBuffer) Workload.of("keyvalue", 1).row(1, 0)[1])
                        .toString();
        assertThat(words.split(" ", -1).length).isBetween(90, 215);
        assertThat(((ByteBuffer) Workload.of("wideblob", 1).row(1, 0)[2]).remaining())
                .isEqualTo(100_000);
        assertThat(Workload.of("wideblob", 1).columns()).hasSize(102);
        assertThat(Workload.of("opaque", 1).valueBytes(1)).isEqualTo(2400);
    }

    @Test
    void anUnknownOneIsRefusedByName() {
        assertThatThrownBy(() -> Workload.of("nothing", 1)).hasMessageContaining("nothing");
    }
}
