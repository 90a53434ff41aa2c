// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.cassandra.disk.Disk;
import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.nio.charset.MalformedInputException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the shadow of a table lies. It is no place where the data of a table is looked for, so a
 * shadow is never taken for a table's data, whatever becomes of the node's configuration.
 *
 * <pre>
 *   &lt;table directory&gt;/rocksdb_shadow/3/      a copy of the table: the engine's directory
 *   &lt;table directory&gt;/rocksdb_shadow/WHOLE   the copy is whole: {@link Whole}
 *   &lt;table directory&gt;/rocksdb_shadow/DIFFERENT   how many differences were found
 * </pre>
 *
 * <p>Not thread-safe.
 */
final class ShadowFolder {
    private static final Logger logger = LoggerFactory.getLogger(ShadowFolder.class);

    /** The folder in the table's directory. */
    static final String NAME = "rocksdb_shadow";

    /** The file that a clean shutdown leaves. */
    static final String WHOLE = "WHOLE";

    /** The file that is there if a difference was found. */
    static final String DIFFERENT = "DIFFERENT";

    /** A disk that is larger than 20 times this has so much to spare. */
    private static final long KEPT_FREE = 10L << 30;

    private static final String COPY = "copy=";
    private static final String GC_BEFORE = "gc_before=";
    private static final String LATEST = "latest=";
    private static final String GRACE = "grace=";
    private static final String WRITTEN = "written=";
    private static final String PURGEABLE = "purgeable=";
    private static final String DELETION = "deletion=";
    private static final String LATE = "late=";
    private static final String SSTABLE = "sstable=";
    private static final String END = "end";
    private static final String NUMBER = "-?[0-9]{1,19}";

    /**
     * That a copy has all of its table, which has these SSTables and nothing else. Written when the
     * node has drained; removed before the table is written again. Whoever changes the table's
     * SSTables while the node is down, as a Cassandra without Petra, leaves others.
     *
     * @param copy its number
     * @param gcBefore as {@link Shadow#gcBefore}
     * @param latest as {@link Shadow#latest}
     * @param memory of what came to it
     * @param sstables what tells each from any other
     */
    record Whole(
            long copy,
            long gcBefore,
            long latest,
            LateWrites.Memory memory,
            SortedSet<String> sstables) {}

    private final Path root;
    private final Disk disk;

    ShadowFolder(Path tableDirectory, Disk disk) {
        this.root = tableDirectory.resolve(NAME);
        this.disk = disk;
    }

    /** The engine's directory of a copy; may not exist. */
    Path copy(long number) {
        return root.resolve(Long.toString(number));
    }

    /** The copies that have a directory. */
    SortedSet<Long> copies() {
        SortedSet<Long> found = new TreeSet<>();
        if (!Files.isDirectory(root)) return found;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(root)) {
            for (Path entry : entries) {
                String name = String.valueOf(entry.getFileName());
                if (name.matches("[1-9][0-9]{0,17}")) found.add(Long.parseLong(name));
            }
        } catch (IOException e) {
            throw new FSReadError(e, root.toString());
        }
        return found;
    }

    /** The number of the next one. */
    long next() {
        SortedSet<Long> found = copies();
        return found.isEmpty() ? 1 : found.last() + 1;
    }

    /** The one on the disk with most room. */
    static ShadowFolder roomiest(List<ShadowFolder> folders) {
        return Collections.max(folders, Comparator.comparingLong(ShadowFolder::free));
    }

    /**
     * Why so many bytes more are too much for its disk, or null: a twentieth of the disk, or {@link
     * #KEPT_FREE} if that is less, is Cassandra's.
     */
    @Nullable String lackOfRoom(long bytes) {
        long free = free();
        long kept = Math.min(KEPT_FREE, disk(FileStore::getTotalSpace) / 20);
        return free - bytes >= kept
                ? null
                : "%d MiB are free for it in %s, of which %d MiB are kept free for the table, and it needs %d MiB"
                        .formatted(free >> 20, table(), kept >> 20, bytes >> 20);
    }

    private long free() {
        return disk(FileStore::getUsableSpace);
    }

    private interface Room {
        long of(FileStore disk) throws IOException;
    }

    private long disk(Room room) {
        try {
            return room.of(Files.getFileStore(table()));
        } catch (IOException e) {
            throw new FSReadError(e, root.toString());
        }
    }

    private Path table() {
        return Objects.requireNonNull(root.getParent(), "a table has a directory");
    }

    /** Makes the directory of the copies. */
    void create() {
        try {
            Disk.makeDirectory(disk, root);
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
    }

    /** Writes the file, durably. */
    void write(Whole whole) {
        StringBuilder text = new StringBuilder();
        text.append(COPY).append(whole.copy()).append('\n');
        text.append(GC_BEFORE).append(whole.gcBefore()).append('\n');
        text.append(LATEST).append(whole.latest()).append('\n');
        LateWrites.Memory memory = whole.memory();
        text.append(GRACE).append(memory.grace()).append('\n');
        text.append(WRITTEN).append(memory.written()).append('\n');
        text.append(PURGEABLE).append(memory.purgeable()).append('\n');
        memory.deletions()
                .forEach(
                        (time, timestamp) ->
                                text.append(DELETION)
                                        .append(time)
                                        .append(' ')
                                        .append(timestamp)
                                        .append('\n'));
        if (memory.late() != null) text.append(LATE).append(memory.late()).append('\n');
        for (String sstable : whole.sstables()) text.append(sstable).append('\n');
        text.append(END).append('\n');
        try {
            Disk.replace(disk, root.resolve(WHOLE), text.toString().getBytes(UTF_8));
        } catch (IOException e) {
            throw new FSWriteError(e, root.resolve(WHOLE).toString());
        }
    }

    /**
     * Takes the file away, durably, and returns what it said. Null if there is none, or it is
     * ill-formed: the copy is then made anew, which is always right.
     *
     * @throws FSReadError if it cannot be read
     * @throws FSWriteError if it cannot be taken away
     */
    @Nullable Whole take() {
        Path file = root.resolve(WHOLE);
        List<String> lines;
        try {
            lines = Files.readAllLines(file, UTF_8);
        } catch (NoSuchFileException e) {
            return null;
        } catch (IOException e) {
            throw new FSReadError(e, file.toString());
        }
        try {
            Files.delete(file);
            disk.syncDirectory(root);
        } catch (IOException e) {
            throw new FSWriteError(e, file.toString());
        }
        Whole whole = parse(lines);
        if (whole == null) logger.warn("{} was ill-formed; the shadow is made anew", file);
        return whole;
    }

    private static @Nullable Whole parse(List<String> lines) {
        int last = lines.size() - 1;
        if (last < 3
                || !lines.get(0).matches(COPY + "[1-9][0-9]{0,17}")
                || !lines.get(1).matches(GC_BEFORE + "-?[0-9]{1,18}")
                || !lines.get(2).matches(LATEST + "[0-9]{1,18}")
                || !lines.get(last).equals(END)) return null;
        int first = 3;
        while (first < last && !lines.get(first).startsWith(SSTABLE)) first++;
        LateWrites.Memory memory = memory(lines.subList(3, first));
        return memory == null
                ? null
                : new Whole(
                        Long.parseLong(lines.get(0).substring(COPY.length())),
                        Long.parseLong(lines.get(1).substring(GC_BEFORE.length())),
                        Long.parseLong(lines.get(2).substring(LATEST.length())),
                        memory,
                        new TreeSet<>(lines.subList(first, last)));
    }

    private static LateWrites.@Nullable Memory memory(List<String> lines) {
        try {
            return parseMemory(lines);
        } catch (NumberFormatException e) {
            logger.debug("A number is too large", e);
            return null;
        }
    }

    private static LateWrites.@Nullable Memory parseMemory(List<String> lines) {
        if (lines.isEmpty())
            return LateWrites.Memory.unknown(
                    "the copy was made by a version of Petra that did not look for late writes");
        if (lines.size() < 3
                || !lines.get(0).matches(GRACE + "[0-9]{1,10}")
                || !lines.get(1).matches(WRITTEN + NUMBER)
                || !lines.get(2).matches(PURGEABLE + NUMBER)) return null;
        SortedMap<Long, Long> deletions = new TreeMap<>();
        String late = null;
        for (String line : lines.subList(3, lines.size())) {
            if (late == null && line.matches(DELETION + NUMBER + " " + NUMBER)) {
                int middle = line.indexOf(' ');
                deletions.put(
                        Long.parseLong(line.substring(DELETION.length(), middle)),
                        Long.parseLong(line.substring(middle + 1)));
            } else if (late == null && line.startsWith(LATE)) late = line.substring(LATE.length());
            else return null;
        }
        return new LateWrites.Memory(
                Integer.parseInt(lines.get(0).substring(GRACE.length())),
                Long.parseLong(lines.get(1).substring(WRITTEN.length())),
                Long.parseLong(lines.get(2).substring(PURGEABLE.length())),
                deletions,
                late);
    }

    /** Notes how many differences were found, durably. */
    void writeDifferent(long count) {
        Path file = root.resolve(DIFFERENT);
        try {
            Disk.replace(disk, file, (count + "\n" + END + "\n").getBytes(UTF_8));
        } catch (IOException e) {
            throw new FSWriteError(e, file.toString());
        }
    }

    /**
     * How many differences were noted; 0 if none ever was, and 1 if that cannot be told.
     *
     * @throws FSReadError if it cannot be read
     */
    long different() {
        Path file = root.resolve(DIFFERENT);
        try {
            List<String> lines = Files.readAllLines(file, UTF_8);
            return lines.size() == 2
                            && lines.get(0).matches("[1-9][0-9]{0,17}")
                            && lines.get(1).equals(END)
                    ? Long.parseLong(lines.get(0))
                    : 1;
        } catch (NoSuchFileException e) {
            return 0;
        } catch (MalformedInputException e) {
            return 1;
        } catch (IOException e) {
            throw new FSReadError(e, file.toString());
        }
    }

    /** Forgets the differences, durably. */
    void deleteDifferent() {
        Path file = root.resolve(DIFFERENT);
        try {
            if (Files.deleteIfExists(file)) disk.syncDirectory(root);
        } catch (IOException e) {
            throw new FSWriteError(e, file.toString());
        }
    }

    /** Deletes the folder if there is no copy in it. */
    void deleteIfEmpty() {
        if (!copies().isEmpty() || !Files.isDirectory(root)) return;
        DirectoryTree.delete(root);
    }

    /**
     * Deletes the shadows of tables that have none by the schema.
     *
     * @param tableDirectories of all tables on the node
     * @param kept the directories of the tables that have one
     */
    static void deleteOthers(List<Path> tableDirectories, List<Path> kept) {
        List<Path> failed = new ArrayList<>();
        for (Path table : tableDirectories) {
            Path folder = table.resolve(NAME);
            if (kept.contains(table) || !Files.isDirectory(folder)) continue;
            try {
                DirectoryTree.delete(folder);
                logger.info("Deleted {}: its table has no shadow any more", folder);
            } catch (FSWriteError e) {
                logger.warn("{} cannot be deleted", folder, e);
                failed.add(folder);
            }
        }
        if (!failed.isEmpty())
            logger.warn("{} take disk space until the node is restarted", failed);
    }

    @Override
    public String toString() {
        return root.toString();
    }
}
