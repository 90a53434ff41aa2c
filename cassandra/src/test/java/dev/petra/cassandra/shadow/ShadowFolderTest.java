// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.disk.Disk;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShadowFolderTest {
    @TempDir Path table;

    private Path root = Path.of("");
    private ShadowFolder folder = new ShadowFolder(root, Disk.REAL);

    @BeforeEach
    void begin() {
        root = table.resolve(ShadowFolder.NAME);
        folder = new ShadowFolder(table, Disk.REAL);
    }

    @Test
    void whatACleanShutdownLeavesIsTakenOnce() {
        ShadowFolder.Whole whole =
                new ShadowFolder.Whole(
                        3,
                        17,
                        19,
                        new LateWrites.Memory(
                                86_400,
                                -5,
                                Long.MIN_VALUE,
                                new TreeMap<>(Map.of(1L, 2L, -3L, Long.MAX_VALUE)),
                                "late=this is why"),
                        new TreeSet<>(List.of("sstable=a 1 2", "sstable=b")));
        folder.create();
        folder.write(whole);
        assertThat(folder.take()).isEqualTo(whole);
        assertThat(folder.take()).isNull();
    }

    @Test
    void anEmptyTable() {
        ShadowFolder.Whole whole =
                new ShadowFolder.Whole(1, 0, 0, new LateWrites().memory(), new TreeSet<>());
        folder.create();
        folder.write(whole);
        assertThat(folder.take()).isEqualTo(whole);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "copy=1\n",
                "copy=1\ngc_before=2\nlatest=3\nsstable=a\n",
                "copy=0\ngc_before=2\nlatest=3\nend\n",
                "copy=x\ngc_before=2\nlatest=3\nend\n",
                "gc_before=2\ncopy=1\nlatest=3\nend\n",
                "copy=1\ngc_before=2\nend\n",
                "copy=1\ngc_before=2\nlatest=-3\nend\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=4\nwritten=5\nsstable=a\nend\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=4\nwritten=5\npurgeable=x\nend\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=4\nwritten=5\npurgeable=6\no\nend\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=9999999999\nwritten=5\npurgeable=6\nend\n",
                """
                copy=1
                gc_before=2
                latest=3
                grace=4
                written=9999999999999999999
                purgeable=1
                end
                """
            })
    void whatIsCutOffOrIllFormedCountsForNothing(String text) throws IOException {
        folder.create();
        Files.writeString(root.resolve(ShadowFolder.WHOLE), text);
        assertThat(folder.take()).isNull();
        assertThat(root.resolve(ShadowFolder.WHOLE)).doesNotExist();
    }

    @Test
    void anOlderVersionDidNotLookForLateWrites() throws IOException {
        folder.create();
        Files.writeString(
                root.resolve(ShadowFolder.WHOLE),
                "copy=1\ngc_before=2\nlatest=3\nsstable=a 1 2\nend\n");
        ShadowFolder.Whole whole = folder.take();
        assertThat(whole).isNotNull();
        assertThat(whole.sstables()).containsExactly("sstable=a 1 2");
        assertThat(new LateWrites(whole.memory()).reason()).contains("did not look");
    }

    @Test
    void differencesAreNotedUntilTheyAreForgotten() {
        assertThat(folder.different()).isZero();
        folder.writeDifferent(3);
        folder.writeDifferent(12);
        assertThat(new ShadowFolder(table, Disk.REAL).different()).isEqualTo(12);
        folder.deleteDifferent();
        folder.deleteDifferent();
        assertThat(folder.different()).isZero();
    }

    /** To refuse the engine wrongly is better than to allow it. */
    @ParameterizedTest
    @ValueSource(strings = {"", "3\n", "0\nend\n", "x\nend\n", "3\nend\n3\n"})
    void anIllFormedNoteCountsAsADifference(String text) throws IOException {
        folder.create();
        Files.writeString(root.resolve(ShadowFolder.DIFFERENT), text);
        assertThat(folder.different()).isEqualTo(1);
    }

    @Test
    void numbersAreNotGivenTwice() throws IOException {
        assertThat(folder.next()).isEqualTo(1);
        Files.createDirectories(folder.copy(1));
        Files.createDirectories(folder.copy(9));
        assertThat(folder.next()).isEqualTo(10);
        assertThat(folder.copies()).containsExactly(1L, 9L);
    }

    @Test
    void aDiskMustHaveRoomForTheTableToo() {
        assertThat(folder.lackOfRoom(0)).isNull();
        assertThat(folder.lackOfRoom(Long.MAX_VALUE / 2))
                .contains("MiB are free for it in " + table)
                .contains("it needs 4398046511103 MiB");
        assertThat(ShadowFolder.roomiest(List.of(folder))).isSameAs(folder);
    }

    @Test
    void shadowsOfTablesThatHaveNoneGo() throws IOException {
        Path other = table.resolveSibling("other");
        Files.createDirectories(other.resolve(ShadowFolder.NAME).resolve("1"));
        Files.createDirectories(folder.copy(1));
        ShadowFolder.deleteOthers(List.of(table, other), List.of(table));
        assertThat(folder.copies()).containsExactly(1L);
        assertThat(other.resolve(ShadowFolder.NAME)).doesNotExist();
        folder.deleteIfEmpty();
        assertThat(root).exists();
        Files.delete(folder.copy(1));
        folder.deleteIfEmpty();
        assertThat(root).doesNotExist();
    }
}
