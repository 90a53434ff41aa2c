// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.stream.Peer.Entry;
import dev.petra.streaming.ChildJvm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/** Jazzer on the columns and entries that a peer sends; in a process of its own. */
class EntryFuzzTest {
    private static final long SECONDS = Long.getLong("petra.block.fuzz.seconds", 10);
    private static final int SEED = Integer.getInteger("petra.block.fuzz.seed", newSeed());

    /** libFuzzer's; 0 would be one by chance. */
    private static int newSeed() {
        return 1 + new Random().nextInt(Integer.MAX_VALUE - 1);
    }

    /** With the input that failed. */
    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    @Test
    @Timeout(value = 1, unit = TimeUnit.DAYS)
    void whateverAPeerSendsIsTakenOrRefused() throws Exception {
        Path corpus = Files.createDirectory(directory.resolve("corpus"));
        try (StorageEngine engine =
                Tables.engine(Map.of("memory", "32MiB", "large_cell", "1KiB"))) {
            Peer peer = new Peer(engine, Peer.table(""), directory.resolve("peer"));
            // A partition that has all that there is.
            peer.fill(1);
            SliceColumns columns =
                    SliceColumns.of(Tables.context(peer.store()).catalog().columns());
            for (boolean isData : List.of(true, false))
                for (boolean isWhole : List.of(true, false)) {
                    List<Entry> entries = isData ? peer.rows() : peer.large();
                    byte[] seed = EntryFuzz.seed(isData, columns, isWhole, entries);
                    // Else all that is made of it would be refused before its end.
                    assertThat(EntryFuzz.take(seed)).isEqualTo(entries.size()).isPositive();
                    Files.write(corpus.resolve("seed-" + isData + "-" + isWhole), seed);
                }
        }
        String said =
                ChildJvm.run(
                        directory,
                        Duration.ofSeconds(SECONDS + 240),
                        List.of(
                                "com.code_intelligence.jazzer.Jazzer",
                                "--target_class=" + EntryFuzz.class.getName(),
                                "--instrumentation_includes=dev.petra.engine.rocks.stream.**:dev.petra.engine.rocks.format.**",
                                "--reproducer_path=" + directory,
                                "-artifact_prefix=" + directory + "/",
                                "-seed=" + SEED,
                                "-max_len=4096",
                                "-max_total_time=" + SECONDS,
                                corpus.toString()));
        assertThat(said).as("runs").containsPattern("Done [1-9]\\d* runs");
    }
}
