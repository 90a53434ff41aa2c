// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class StoreBenchmarkTest {
    /** Notes what it is asked for, of several in succession the first. */
    private static final class Noted implements Access {
        private final List<String> asked = Collections.synchronizedList(new ArrayList<>());

        private void note(String what) {
            synchronized (asked) {
                if (asked.isEmpty() || !asked.get(asked.size() - 1).equals(what)) asked.add(what);
            }
        }

        @Override
        public void write(long number, int version) {
            note("write");
        }

        @Override
        public long read(long number) {
            note("read");
            return 1;
        }

        @Override
        public long scan() {
            note("scan");
            return 1;
        }

        @Override
        public void flush() {
            note("flush");
        }

        @Override
        public void settle() {
            note("settle");
        }

        @Override
        public void compacting(boolean automatic) {}

        @Override
        public Probe probe() {
            return new Probe(List.of());
        }

        @Override
        public void close() {}
    }

    /** What the warm-up writes is merged, and caches of what is merged are filled. */
    @ParameterizedTest
    @CsvSource({"mixed, read", "write, read", "scan, scan"})
    void measuringBeginsAtRestAndInCaches(String operation, String filling) {
        Noted access = new Noted();
        StoreBenchmark benchmark = new StoreBenchmark();
        benchmark.seconds = 1;
        benchmark.warmups = 1;
        benchmark.open(access, Workload.of("kv", 0.001));
        benchmark.prepare(operation, 1);
        int settled = access.asked.indexOf("settle");
        assertThat(access.asked.subList(0, settled)).contains(operation.replace("mixed", "write"));
        assertThat(access.asked.subList(settled, access.asked.size()))
                .containsExactly("settle", "flush", filling);
    }
}
