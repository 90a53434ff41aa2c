// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
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

    /** As engines give them: keys first, then the values that are selected. */
    private static long check(Workload workload, long number, int version, long offset) {
        Object[] row = workload.row(number, version);
        int first = 1 + workload.clusterings();
        long clustering =
                workload.clusterings() == 0
                        ? 0
                        : row[1] instanceof Instant at ? at.toEpochMilli() : (int) row[1];
        long head = 0;
        long bytes = 0;
        for (int i = first; i < row.length; i++) {
            String name = workload.columns().get(i)[0];
            if (!workload.selected().isEmpty() && !workload.selected().contains(name)) continue;
            ByteBuffer value =
                    row[i] instanceof ByteBuffer buffer
                            ? buffer
                            : ByteBuffer.allocate(8).putDouble((double) row[i]).flip();
            if (bytes == 0) head = value.getLong(value.position());
            bytes += value.remaining();
        }
        ReadCheck check = new ReadCheck(workload, number + offset);
        check.row(clustering, head, bytes);
        return bytes;
    }

    @ParameterizedTest
    @MethodSource("names")
    void aRowThatIsReadIsToldFromAnother(String name) {
        Workload workload = Workload.of(name, 0.1);
        for (long number = 0; number < Math.min(50, workload.rows()); number++)
            for (int version : new int[] {0, 1, 7, 12}) {
                assertThat(check(workload, number, version, 0)).isPositive();
                long row = number;
                assertThatThrownBy(() -> check(workload, row, version, 1))
                        .hasMessageContaining("values that were not written");
            }
    }

    @Test
    void rowsThatAreMissingOrOutOfOrderAreNoticed() {
        Workload scan = Workload.of("scan", 0.01);
        assertThat(scan.leastRows(5)).isEqualTo(1000);
        assertThatThrownBy(() -> new ReadCheck(scan, 5).end()).hasMessageContaining("has 0 rows");
        ReadCheck check = new ReadCheck(scan, 5);
        long bytes = scan.readBytes(5, 0);
        long step = 20;
        long early = ((Instant) scan.row(5, 0)[1]).toEpochMilli();
        long late = ((Instant) scan.row(5 + step, 0)[1]).toEpochMilli();
        assertThat(late).isGreaterThan(early);
        check.row(late, scan.head(5 + step, 0), bytes);
        check.row(early, scan.head(5, 0), bytes);
        assertThatThrownBy(() -> check.row(late, scan.head(5 + step, 0), bytes))
                .hasMessageContaining("comes after");
    }

    /** In the order of names, which is that of the cells of a row. */
    @ParameterizedTest
    @MethodSource("names")
    void theFirstValueIsOfTheFirstColumn(String name) {
        Workload workload = Workload.of(name, 0.1);
        if (!workload.selected().isEmpty()) return;
        List<String> regular =
                workload.columns().stream()
                        .skip(1 + workload.clusterings())
                        .map(column -> column[0])
                        .toList();
        assertThat(regular.get(0)).isEqualTo(regular.stream().sorted().findFirst().orElseThrow());
    }

    @Test
    void noSliceOfOneIsAsked() {
        Workload scan = Workload.of("scan", 1);
        assertThat(scan.rows() / scan.limit()).isEqualTo(2000);
        assertThat(scan.key(1999)).isNotEqualTo(scan.key(0));
        assertThat(scan.key(2000)).isEqualTo(scan.key(0));
        Workload blobs = Workload.of("wideblob10", 10);
        assertThat(blobs.rows()).isEqualTo(2000);
        assertThat(blobs.key(1999)).isNotEqualTo(blobs.key(1998));
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
