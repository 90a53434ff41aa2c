// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class WorkloadTest {
    @TempDir Path directory;

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

    /** A row as engines give it: its clustering, its first bytes and its length. */
    private record Found(long clustering, long head, long bytes) {
        void check(ReadCheck check) {
            check.row(clustering, head, bytes);
        }
    }

    private static Found found(Workload workload, long number, int version) {
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
        return new Found(clustering, head, bytes);
    }

    @ParameterizedTest
    @MethodSource("names")
    void aRowThatIsReadIsToldFromAnotherAndFromOlderOnes(String name) {
        Workload workload = Workload.of(name, 0.1);
        int version = workload.versions() - 1;
        long step = Math.max(1, workload.step());
        for (long number = workload.rows() - step;
                number < workload.rows() && number < workload.rows() - step + 50;
                number++) {
            Found right = found(workload, number, version);
            ReadCheck check = new ReadCheck(workload, number);
            right.check(check);
            Found other = found(workload, number - 1, version);
            Found wrong = new Found(right.clustering, other.head, other.bytes);
            Found older = found(workload, number, version + 7);
            long asked = number;
            for (Found bad : List.of(wrong, older))
                assertThatThrownBy(() -> bad.check(new ReadCheck(workload, asked)))
                        .hasMessageContaining("not the newest of row " + number);
        }
    }

    @Test
    void aReadMayBringWhatIsBeingWrittenAndNothingOlder() {
        Workload kv = Workload.of("kv", 1);
        Written written = kv.written();
        long number = written.begin(new SplittableRandom(1));
        assertThat(written.version(number)).isEqualTo(1);
        found(kv, number, 0).check(new ReadCheck(kv, number));
        found(kv, number, 1).check(new ReadCheck(kv, number));
        assertThatThrownBy(() -> found(kv, number, 2).check(new ReadCheck(kv, number)))
                .hasMessageContaining("not the newest");
        ReadCheck before = new ReadCheck(kv, number);
        written.end(number);
        // It began before the write was acknowledged.
        found(kv, number, 0).check(before);
        assertThatThrownBy(() -> found(kv, number, 0).check(new ReadCheck(kv, number)))
                .hasMessageContaining("not the newest");
        found(kv, number, 1).check(new ReadCheck(kv, number));
    }

    @Test
    void versionsBeginAnewAfterALongTime() {
        Workload kv = Workload.of("kv", 0.000005);
        assertThat(kv.rows()).isEqualTo(1);
        for (int write = 1; write < 300; write++) {
            kv.written().begin(new SplittableRandom(1));
            found(kv, 0, write - 1).check(new ReadCheck(kv, 0));
            found(kv, 0, write).check(new ReadCheck(kv, 0));
            kv.written().end(0);
            found(kv, 0, write).check(new ReadCheck(kv, 0));
            int stale = write - 1;
            assertThatThrownBy(() -> found(kv, 0, stale).check(new ReadCheck(kv, 0)))
                    .hasMessageContaining("not the newest");
        }
    }

    @Test
    void aRowIsWrittenByOneAtATime() {
        Workload kv = Workload.of("kv", 0.000005);
        assertThat(kv.written().begin(new SplittableRandom(1))).isZero();
        assertThatThrownBy(() -> kv.written().begin(new SplittableRandom(1)))
                .hasMessageContaining("too few for so many writes at once: raise '--scale'");
    }

    @Test
    void rowsThatAreMissingOrOutOfOrderAreNoticed() {
        Workload series = Workload.of("timeseries", 0.01);
        assertThat(series.rows()).isEqualTo(5000);
        assertThat(series.step()).isEqualTo(1000);
        assertThatThrownBy(() -> new ReadCheck(series, 5).end()).hasMessageContaining("has no row");
        ReadCheck whole = new ReadCheck(series, 5);
        for (long number = 4005; number > 0; number -= 1000) found(series, number, 0).check(whole);
        assertThat(whole.end()).isEqualTo(5L * series.readBytes(5, 0));
        ReadCheck first = new ReadCheck(series, 5);
        assertThatThrownBy(() -> found(series, 3005, 0).check(first))
                .hasMessageContaining("row 4005 is missing");
        ReadCheck between = new ReadCheck(series, 5);
        found(series, 4005, 0).check(between);
        assertThatThrownBy(() -> found(series, 2005, 0).check(between))
                .hasMessageContaining("row 3005 is missing");
        ReadCheck end = new ReadCheck(series, 5);
        found(series, 4005, 0).check(end);
        assertThatThrownBy(end::end).hasMessageContaining("ends at row 4005");
        ReadCheck order = new ReadCheck(series, 5);
        found(series, 4005, 0).check(order);
        assertThatThrownBy(() -> found(series, 4005, 0).check(order))
                .hasMessageContaining("comes after");
    }

    @Test
    void rowsThatAreBeingAddedMayBeRead() {
        Workload series = Workload.of("timeseries", 0.01);
        Written written = series.written();
        SplittableRandom random = new SplittableRandom(1);
        Found early = found(series, 5000, 0);
        assertThatThrownBy(() -> early.check(new ReadCheck(series, 0)))
                .hasMessageContaining("was never written");
        long first = written.begin(random);
        long second = written.begin(random);
        assertThat(List.of(first, second)).containsExactly(5000L, 5001L);
        written.end(second);
        assertThat(written.there()).isEqualTo(5000);
        early.check(new ReadCheck(series, 0));
        found(series, 4000, 0).check(new ReadCheck(series, 0));
        written.end(first);
        assertThat(written.there()).isEqualTo(5002);
        assertThatThrownBy(() -> found(series, 4000, 0).check(new ReadCheck(series, 0)))
                .hasMessageContaining("row 5000 is missing");
        series.checkScan(5002, 5002);
        for (long wrong : new long[] {5001, 5003})
            assertThatThrownBy(() -> series.checkScan(5002, wrong))
                    .hasMessageContaining("found " + wrong + " rows, not 5002");
    }

    @Test
    void anotherProcessKnowsWhatWasWritten() throws IOException {
        for (String name : List.of("kv", "timeseries")) {
            Path file = directory.resolve(name);
            Workload before = Workload.of(name, 0.01);
            SplittableRandom random = new SplittableRandom(3);
            long number = before.written().begin(random);
            before.written().end(number);
            before.written().save(file);
            Workload after = Workload.of(name, 0.01);
            after.written().restore(file);
            assertThat(after.written().begun()).isEqualTo(before.written().begun());
            assertThat(after.written().there()).isEqualTo(before.written().there());
            for (long row = 0; row < before.rows(); row++)
                assertThat(after.written().newest(row)).isEqualTo(before.written().newest(row));
        }
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
        Workload blobs = Workload.of("wideblob10", 1);
        assertThat(blobs.rows()).isEqualTo(2000);
        assertThat(Workload.of("wideblob", 10).rows()).isEqualTo(2000);
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
