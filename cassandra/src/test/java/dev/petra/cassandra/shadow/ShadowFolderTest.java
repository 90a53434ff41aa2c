// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.disk.ChecksummedText;
import dev.petra.cassandra.disk.Disk;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.io.util.File;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ShadowFolderTest {
    private static final String COMPLETE =
            "copy=1\ngc_before=2\nlatest=3\ngrace=4\n" + "group=5 6\n".repeat(LateWrites.GROUPS);

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
        List<LateWrites.Group> groups = new ArrayList<>();
        for (int i = 0; i < LateWrites.GROUPS; i++)
            groups.add(new LateWrites.Group(-i, i == 7 ? Long.MAX_VALUE : Long.MIN_VALUE + i));
        ShadowFolder.Closed closed =
                new ShadowFolder.Closed(
                        3,
                        17,
                        19,
                        new LateWrites.Memory(
                                86_400,
                                groups,
                                new TreeMap<>(Map.of(1L, 2L, -3L, Long.MAX_VALUE)),
                                "late=this is why"),
                        new TreeSet<>(List.of("sstable=a 1 2", "sstable=b")),
                        List.of(
                                new ShadowFolder.Left("/a b/nb-2-big", 0, LateWrites.NOTHING_NEW),
                                new ShadowFolder.Left("/a/nb-7-big", 17, LateWrites.ALL_NEW),
                                new ShadowFolder.Left("/a/nb-8-big", 18, -19),
                                new ShadowFolder.Left("/a/nb-9-big", 18, 1_764_412_345_678_901L)),
                        "00ff");
        folder.create();
        folder.write(closed);
        assertThat(folder.take()).isEqualTo(closed);
        assertThat(folder.take()).isNull();
    }

    @Test
    void anEmptyTable() {
        ShadowFolder.Closed closed =
                new ShadowFolder.Closed(
                        1,
                        0,
                        0,
                        new LateWrites().memory(new LateWrites.Moment(0, 0)),
                        new TreeSet<>(),
                        List.of(),
                        null);
        folder.create();
        folder.write(closed);
        assertThat(folder.take()).isEqualTo(closed);
    }

    @Test
    void aTableWithoutSSTablesOfWhichSomethingIsLeft() {
        folder.create();
        write(COMPLETE + "left=later 9 a\nleft=first 8 b\nleft=-7 6 c d\n");
        ShadowFolder.Closed closed = folder.take();
        assertThat(closed).isNotNull();
        assertThat(closed.sstables()).isEmpty();
        assertThat(closed.left())
                .containsExactly(
                        new ShadowFolder.Left("a", 9, LateWrites.ALL_NEW),
                        new ShadowFolder.Left("b", 8, LateWrites.NOTHING_NEW),
                        new ShadowFolder.Left("c d", 6, -7));
        assertThat(closed.nextKey()).isNull();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "copy=1\n",
                "copy=0\ngc_before=2\nlatest=3\n",
                "copy=x\ngc_before=2\nlatest=3\n",
                "gc_before=2\ncopy=1\nlatest=3\n",
                "copy=1\ngc_before=2\n",
                "copy=1\ngc_before=2\nlatest=-3\n",
                "copy=1\ngc_before=2\nlatest=3\nsstable=a\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=4\nsstable=a\n",
                "copy=1\ngc_before=2\nlatest=3\ngrace=4\ngroup=5 6\n",
                "complete:group=5 6\n",
                "complete:o\n",
                "complete:deletion=9999999999999999999 1\n",
                "complete:deletion=x 1\n",
                "complete:next_key=00\n",
                "complete:left=first 1 a\nnext_key=0\n",
                "complete:left=first 1 a\nnext_key=0g\n",
                "complete:left=first 1 a\nnext_key=00\nleft=first 1 b\n",
                "complete:left=first 1 a\nsstable=a\n",
                "complete:left=first a\n",
                "complete:left=laterx 1 a\n",
                "complete:left=9999999999999999999 1 a\n",
                "complete:left=7 a\n",
                "complete:left=a\n",
            })
    void whatIsIllFormedCountsForNothing(String text) {
        folder.create();
        write(text.replace("complete:", COMPLETE));
        assertNothingIsTaken("whole");
    }

    private void write(String text) {
        ChecksummedText.write(Disk.REAL, closed(), text);
    }

    private Path closed() {
        return root.resolve(ShadowFolder.CLOSED);
    }

    private void assertNothingIsTaken(String what) {
        assertThat(folder.take()).as(what).isNull();
        assertThat(closed()).as(what).doesNotExist();
    }

    /**
     * A digit decides what counts as purged. What is no text was not taken away, and in the way of
     * each further copy.
     */
    @Test
    void whatIsDamagedCountsForNothing() throws IOException {
        folder.create();
        write(COMPLETE + "sstable=a\n");
        byte[] whole = Files.readAllBytes(closed());
        // Each bit of a byte in turn.
        for (int bit = 0; bit < 8 * whole.length; bit += 101) {
            byte[] damaged = whole.clone();
            damaged[bit / 8] ^= (byte) (1 << (bit % 8));
            Files.write(closed(), damaged);
            assertNothingIsTaken("bit " + bit);
        }
        for (int length = 0; length < whole.length; length += 101) {
            Files.write(closed(), Arrays.copyOf(whole, length));
            assertNothingIsTaken(length + " bytes");
        }
        Files.write(closed(), whole);
        assertThat(folder.take()).isNotNull();
    }

    /** As earlier versions wrote it. */
    @Test
    void whatHasNoChecksumCountsForNothing() throws IOException {
        folder.create();
        for (String end : List.of("", "end\n")) {
            Files.writeString(closed(), COMPLETE + "sstable=a\n" + end);
            assertNothingIsTaken("end: " + end);
        }
    }

    /** As with a bad sector: it was not taken away, and in the way of each further copy. */
    @Test
    void whatCannotBeReadIsTakenAway() throws IOException {
        folder.create();
        // Cannot be read as a file either.
        Files.createDirectory(closed());
        assertNothingIsTaken("unreadable");
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

    /** By {@code disk_failure_policy: best_effort}: it had the most room for ever. */
    @Test
    void aCopyIsNotPutWhereNothingCanBeWritten() throws IOException {
        Path first = Files.createDirectory(table.resolve("first"));
        Path second = Files.createDirectory(table.resolve("second"));
        List<ShadowFolder> both =
                List.of(new ShadowFolder(first, Disk.REAL), new ShadowFolder(second, Disk.REAL));
        try {
            // They have as much room.
            DisallowedDirectories.maybeMarkUnwritable(new File(first));
            assertThat(ShadowFolder.roomiest(both)).isSameAs(both.get(1));
            DisallowedDirectories.clearUnwritableUnsafe();
            DisallowedDirectories.maybeMarkUnwritable(new File(second));
            assertThat(ShadowFolder.roomiest(both)).isSameAs(both.get(0));
            // The error says then what is wrong.
            DisallowedDirectories.maybeMarkUnwritable(new File(first));
            assertThat(ShadowFolder.roomiest(both)).isIn(both);
        } finally {
            DisallowedDirectories.clearUnwritableUnsafe();
        }
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
