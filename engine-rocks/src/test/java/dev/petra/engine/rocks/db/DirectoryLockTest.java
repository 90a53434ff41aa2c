// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import dev.petra.engine.WalSync;
import dev.petra.engine.rocks.Tables;
import dev.petra.streaming.ChildJvm;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Two nodes on one directory: a container was moved while the old one still runs. */
class DirectoryLockTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE t (k int PRIMARY KEY, v int)");
    private static final String OPEN = "the store is open";
    private static final String CLOSED = "the store is closed";

    @TempDir Path directory;

    /** The process that has it open: the directory. */
    static final class Owner {
        private Owner() {}

        public static void main(String[] args) throws IOException {
            StorageEngine engine = Tables.engine();
            engine.walSync(WalSync.PERIODIC, Duration.ofHours(1));
            TableStore store = Tables.open(engine, Path.of(args[0], "1"), TABLE);
            for (int row = 0; row < 100; row++) write(store, row);
            System.out.println(OPEN);
            var unused = System.in.read();
            for (int row = 100; row < 200; row++) write(store, row);
            engine.close();
            System.out.println(CLOSED);
        }
    }

    private static void write(TableStore store, int row) {
        var update = Tables.update(TABLE, row);
        update.row().add("v", row);
        store.write(update.build());
    }

    @Test
    void whatAnotherProcessHasOpenIsNotTouched() throws Exception {
        Path store = directory.resolve("1");
        Process owner =
                new ProcessBuilder(
                                ChildJvm.command(
                                        List.of(Owner.class.getName(), directory.toString())))
                        .redirectError(ProcessBuilder.Redirect.INHERIT)
                        .start();
        try (StorageEngine engine = Tables.engine();
                BufferedReader out =
                        new BufferedReader(new InputStreamReader(owner.getInputStream(), UTF_8))) {
            awaitLine(out, OPEN);
            Path staged = store.resolve(StoreDescriptor.STREAMS).resolve("1");
            Files.createDirectories(staged);
            for (int attempt = 0; attempt < 2; attempt++)
                assertThatThrownBy(() -> Tables.open(engine, store, TABLE))
                        .isInstanceOf(FSReadError.class)
                        .hasMessageContainingAll("Another process", store.toString());
            assertThat(staged).as("what it receives").exists();
            owner.getOutputStream().write('\n');
            owner.getOutputStream().flush();
            awaitLine(out, CLOSED);
            assertThat(owner.waitFor()).isZero();
            assertThat(Tables.numbers(engine, store, TABLE))
                    .isEqualTo(IntStream.range(0, 200).boxed().toList());
            assertThat(staged.getParent()).doesNotExist();
        } finally {
            owner.destroyForcibly();
        }
    }

    /** The process of the other store logs, too. */
    private static void awaitLine(BufferedReader out, String wanted) throws IOException {
        String line = out.readLine();
        while (line != null && !line.contains(wanted)) line = out.readLine();
        assertThat(line).as(wanted).isNotNull();
    }
}
