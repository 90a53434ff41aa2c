// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The profile for cassandra-stress asks for what the workload does. */
class StressProfileTest {
    @Test
    void theProfileHasTheColumnsOfTheWorkload() throws IOException {
        Path docs = Path.of(System.getProperty("basedir", "."), "..", "docs");
        String profile = Files.readString(docs.resolve("stress/opaque.yaml"));
        Workload opaque = Workload.of("opaque", 6);
        assertThat(profile).contains("keyspace: bench\n", "table: t\n");
        assertThat(profile)
                .contains(
                        "cql: " + opaque.select().replace("bench.t", "t").replace(" LIMIT 1", ""));
        List<String[]> columns = opaque.columns();
        for (int i = 0; i < columns.size(); i++) {
            int bytes = i == 0 ? 10 : ((ByteBuffer) opaque.row(1, 0)[i]).remaining();
            assertThat(profile)
                    .contains(
                            "  - name: "
                                    + columns.get(i)[0]
                                    + "\n    size: fixed("
                                    + bytes
                                    + ")\n");
        }
        assertThat(profile.split("- name:", -1)).hasSize(columns.size() + 1);
        assertThat(Files.readString(docs.resolve("performance.md")))
                .contains("n=" + opaque.rows() + " ", "UNIFORM(1.." + opaque.rows() + ")");
    }
}
