// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.rocks.Tables;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class StoreDescriptorTest {
    private static final TableMetadata TABLE =
            Tables.table("CREATE TABLE emp (k int PRIMARY KEY, v int)");

    /** As in docs/FORMAT.md. */
    private static final String LINES =
            """
            # A table of Apache Cassandra in RocksDB, kept by Petra. Do not edit.
            format=2
            state=ready
            table=ks.emp
            table_id=11111111-2222-3333-4444-555555555555
            column_family=emp
            generation=1
            partitioner=org.apache.cassandra.dht.Murmur3Partitioner
            """;

    private static final String CHECKSUM = "crc32c=f7fd1b39\n";

    @TempDir Path temp;
    private Path store = Path.of("");
    private Path file = Path.of("");

    @BeforeEach
    void create() {
        store = temp.resolve("1");
        file = store.resolve(StoreDescriptor.NAME);
        assertThat(descriptor().prepare()).isTrue();
        descriptor().ready();
    }

    private StoreDescriptor descriptor() {
        return new StoreDescriptor(Tables.spec(store, TABLE));
    }

    @Test
    void theBytesAreAsDocumented() throws IOException {
        assertThat(Files.readString(file)).isEqualTo(LINES + CHECKSUM);
        assertThat(descriptor().prepare()).isFalse();
    }

    /** A digit of the format kept the node from starting, or had the file written anew. */
    @Test
    void eachChangedByteIsDamage() throws IOException {
        byte[] sound = Files.readAllBytes(file);
        for (int at = 0; at < sound.length; at++)
            for (byte changed : changes(sound[at])) {
                byte[] damaged = sound.clone();
                damaged[at] = changed;
                Files.write(file, damaged);
                assertThatThrownBy(() -> descriptor().prepare())
                        .as("byte %d is %d", at, changed)
                        .isInstanceOf(CorruptStoreException.class)
                        .hasMessageContaining(file + " is damaged")
                        .hasMessageContaining("Restore");
                assertThat(Files.readAllBytes(file)).isEqualTo(damaged);
            }
        Files.write(file, sound);
        assertThat(descriptor().prepare()).isFalse();
    }

    /** One bit, or what means something in the file. */
    private static Set<Byte> changes(byte is) {
        Set<Byte> changes = new TreeSet<>();
        for (int bit = 0; bit < Byte.SIZE; bit++) changes.add((byte) (is ^ (1 << bit)));
        for (byte special : "\n\r\t #!=:\\9".getBytes(UTF_8)) changes.add(special);
        changes.remove(is);
        return changes;
    }

    @Test
    void aFileThatWasCutIsDamaged() throws IOException {
        byte[] sound = Files.readAllBytes(file);
        for (int length = LINES.length() + 1; length < sound.length; length++) {
            Files.write(file, Arrays.copyOf(sound, length));
            assertThatThrownBy(() -> descriptor().prepare())
                    .as("%d bytes", length)
                    .isInstanceOf(CorruptStoreException.class)
                    .hasMessageContaining(file + " is damaged");
        }
    }

    @Test
    void aFileOfAnEarlierVersionIsReadAndGetsTheChecksumWhenItIsWritten() throws IOException {
        Files.writeString(file, LINES);
        assertThat(descriptor().prepare()).isFalse();
        assertThat(file).hasContent(LINES);
        Files.writeString(file, LINES.replace("format=2", "format=1"));
        assertThat(descriptor().prepare()).isFalse();
        assertThat(file).hasContent(LINES + CHECKSUM);
    }

    @Test
    void aCopyHasTheChecksumOfWhatItSays() throws IOException {
        Path snapshot = Files.createDirectory(temp.resolve("snapshot"));
        descriptor().copyTo(snapshot);
        assertThat(snapshot.resolve(StoreDescriptor.NAME)).hasSameBinaryContentAs(file);
        Path copy = temp.resolve("copy");
        TableMetadata another = TABLE.unbuild().id(TableId.generate()).build();
        StoreDescriptor other = new StoreDescriptor(Tables.spec(copy, another));
        other.copyFrom(snapshot);
        assertThat(other.prepare()).isFalse();
    }
}
