// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static java.nio.charset.StandardCharsets.UTF_8;

import dev.petra.cassandra.disk.ChecksummedText;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.table.TableRegistry;
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
import org.apache.cassandra.db.ColumnFamilyStore;
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
 *   &lt;table directory&gt;/rocksdb_shadow/CLOSED   where the copy goes on: {@link Closed}
 *   &lt;table directory&gt;/rocksdb_shadow/backups/   {@link CopySource}
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
    static final String CLOSED = "CLOSED";

    /** The file that is there if a difference was found. */
    static final String DIFFERENT = "DIFFERENT";

    /** A disk that is larger than 20 times this has so much to spare. */
    private static final long KEPT_FREE = 10L << 30;

    private static final String COPY = "copy=";
    private static final String GC_BEFORE = "gc_before=";
    private static final String LATEST = "latest=";
    private static final String GRACE = "grace=";
    private static final String GROUP = "group=";
    private static final String DELETION = "deletion=";
    private static final String LATE = "late=";
    private static final String SSTABLE = "sstable=";
    private static final String LEFT = "left=";
    private static final String FIRST = "first";
    private static final String LATER = "later";
    private static final String NEXT_KEY = "next_key=";
    private static final String END = "end";
    private static final String NUMBER = "-?[0-9]{1,19}";

    /**
     * That its table has these SSTables and nothing else, and that a copy has all of that, or will
     * have it with what is left to copy. Written when the node has drained; removed before the
     * table is written again. Whoever changes the table's SSTables while the node is down, as a
     * Cassandra without Petra, leaves others.
     *
     * @param copy its number
     * @param gcBefore as {@link PurgeTimes#gcBefore}
     * @param latest as {@link PurgeTimes#latest}
     * @param memory of what came to it
     * @param sstables what tells each from any other
     * @param left what is to be copied, in this order
     * @param nextKey the key with which the copy of the first of these goes on, in hexadecimal;
     *     null if from its beginning
     */
    record Closed(
            long copy,
            long gcBefore,
            long latest,
            LateWrites.Memory memory,
            SortedSet<String> sstables,
            List<Left> left,
            @Nullable String nextKey) {}

    /**
     * A {@link CopySource}.
     *
     * @param path of its files, without the component
     * @param bytes of its content
     * @param newFrom as {@link CopySource#newFrom}
     */
    record Left(String path, long bytes, long newFrom) {}

    private final Path root;
    private final Disk disk;

    ShadowFolder(Path tableDirectory, Disk disk) {
        this.root = tableDirectory.resolve(NAME);
        this.disk = disk;
    }

    /** In each directory of a table; a copy is in one of them. */
    static List<ShadowFolder> allOf(ColumnFamilyStore cfs) {
        List<ShadowFolder> folders = new ArrayList<>();
        for (Path directory : TableRegistry.directories(cfs))
            folders.add(new ShadowFolder(directory, Disk.REAL));
        if (folders.isEmpty())
            throw new IllegalStateException(
                    cfs.metadata + " has no directory: are its disks mounted?");
        return folders;
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
                if (name.matches(StoreLocation.GENERATION)) found.add(Long.parseLong(name));
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

    /** The one on the disk with most room, of those that can be written, if there are any. */
    static ShadowFolder roomiest(List<ShadowFolder> folders) {
        List<ShadowFolder> writable =
                folders.stream().filter(each -> StoreLocation.isWritable(each.table())).toList();
        return Collections.max(
                writable.isEmpty() ? folders : writable,
                Comparator.comparingLong(ShadowFolder::free));
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

    /** The table's directory. */
    Path table() {
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

    /** Writes the file, durably, as {@link ChecksummedText}. */
    void write(Closed closed) {
        StringBuilder text = new StringBuilder();
        text.append(COPY).append(closed.copy()).append('\n');
        text.append(GC_BEFORE).append(closed.gcBefore()).append('\n');
        text.append(LATEST).append(closed.latest()).append('\n');
        LateWrites.Memory memory = closed.memory();
        text.append(GRACE).append(memory.grace()).append('\n');
        for (LateWrites.Group group : memory.groups())
            text.append(GROUP)
                    .append(group.written())
                    .append(' ')
                    .append(group.purgeable())
                    .append('\n');
        memory.deletions()
                .forEach(
                        (time, timestamp) ->
                                text.append(DELETION)
                                        .append(time)
                                        .append(' ')
                                        .append(timestamp)
                                        .append('\n'));
        if (memory.late() != null) text.append(LATE).append(memory.late()).append('\n');
        for (String sstable : closed.sstables()) text.append(sstable).append('\n');
        for (Left left : closed.left())
            text.append(LEFT)
                    .append(newFrom(left))
                    .append(' ')
                    .append(left.bytes())
                    .append(' ')
                    .append(left.path())
                    .append('\n');
        if (closed.nextKey() != null) text.append(NEXT_KEY).append(closed.nextKey()).append('\n');
        ChecksummedText.write(disk, root.resolve(CLOSED), text.toString());
    }

    /**
     * Takes the file away, durably, and returns what it said. Null if there is none, or it cannot
     * be read, or is not what {@link #write} has written: the copy is then made anew, which is
     * always right.
     *
     * @throws FSWriteError if it cannot be taken away
     */
    @Nullable Closed take() {
        Path file = root.resolve(CLOSED);
        String text = null;
        try {
            text = ChecksummedText.readUnchanged(file);
        } catch (NoSuchFileException e) {
            return null;
        } catch (IOException e) {
            // It goes all the same: left there, it would be in the way of each copy.
            logger.warn("{} cannot be read", file, e);
        }
        try {
            Files.delete(file);
            disk.syncDirectory(root);
        } catch (IOException e) {
            throw new FSWriteError(e, file.toString());
        }
        Closed closed = text == null ? null : parse(text.lines().toList());
        if (closed == null)
            logger.warn(
                    "{} was damaged, or written by another version; the shadow is made anew", file);
        return closed;
    }

    private static String newFrom(Left left) {
        if (left.newFrom() == LateWrites.NOTHING_NEW) return FIRST;
        return left.newFrom() == LateWrites.ALL_NEW ? LATER : Long.toString(left.newFrom());
    }

    private static @Nullable Closed parse(List<String> lines) {
        try {
            return parseAll(lines);
        } catch (NumberFormatException e) {
            logger.debug("A number is too large", e);
            return null;
        }
    }

    private static @Nullable Closed parseAll(List<String> lines) {
        if (lines.size() < 3
                || !lines.get(0).matches(COPY + StoreLocation.GENERATION)
                || !lines.get(1).matches(GC_BEFORE + "-?[0-9]{1,18}")
                || !lines.get(2).matches(LATEST + "[0-9]{1,18}")) return null;
        int sstables = 3;
        while (sstables < lines.size() && !isOfSSTables(lines.get(sstables))) sstables++;
        LateWrites.Memory memory = memory(lines.subList(3, sstables));
        if (memory == null) return null;
        SortedSet<String> all = new TreeSet<>();
        List<Left> left = new ArrayList<>();
        String nextKey = null;
        for (String line : lines.subList(sstables, lines.size())) {
            if (nextKey != null) return null;
            if (line.startsWith(SSTABLE) && left.isEmpty()) all.add(line);
            else if (line.matches(
                    LEFT + "(" + FIRST + "|" + LATER + "|" + NUMBER + ") [0-9]{1,18} .+"))
                left.add(left(line.substring(LEFT.length())));
            else if (line.matches(NEXT_KEY + "([0-9a-f]{2})*") && !left.isEmpty())
                nextKey = line.substring(NEXT_KEY.length());
            else return null;
        }
        return new Closed(
                Long.parseLong(lines.get(0).substring(COPY.length())),
                Long.parseLong(lines.get(1).substring(GC_BEFORE.length())),
                Long.parseLong(lines.get(2).substring(LATEST.length())),
                memory,
                all,
                left,
                nextKey);
    }

    private static Left left(String line) {
        String[] parts = line.split(" ", 3);
        long newFrom =
                switch (parts[0]) {
                    case FIRST -> LateWrites.NOTHING_NEW;
                    case LATER -> LateWrites.ALL_NEW;
                    default -> Long.parseLong(parts[0]);
                };
        return new Left(parts[2], Long.parseLong(parts[1]), newFrom);
    }

    private static boolean isOfSSTables(String line) {
        return line.startsWith(SSTABLE) || line.startsWith(LEFT);
    }

    private static LateWrites.@Nullable Memory memory(List<String> lines) {
        int first = 1 + LateWrites.GROUPS;
        if (lines.size() < first || !lines.get(0).matches(GRACE + "[0-9]{1,10}")) return null;
        List<LateWrites.Group> groups = new ArrayList<>();
        for (String line : lines.subList(1, first)) {
            if (!line.matches(GROUP + NUMBER + " " + NUMBER)) return null;
            groups.add(new LateWrites.Group(number(line, GROUP), secondNumber(line)));
        }
        SortedMap<Long, Long> deletions = new TreeMap<>();
        String late = null;
        for (String line : lines.subList(first, lines.size())) {
            if (late == null && line.matches(DELETION + NUMBER + " " + NUMBER))
                deletions.put(number(line, DELETION), secondNumber(line));
            else if (late == null && line.startsWith(LATE)) late = line.substring(LATE.length());
            else return null;
        }
        return new LateWrites.Memory(
                Integer.parseInt(lines.get(0).substring(GRACE.length())), groups, deletions, late);
    }

    private static long number(String line, String after) {
        return Long.parseLong(line.substring(after.length(), line.indexOf(' ')));
    }

    private static long secondNumber(String line) {
        return Long.parseLong(line.substring(line.indexOf(' ') + 1));
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

    /** Where a {@link CopySource} is kept over a restart. */
    Path kept() {
        return root.resolve(CopySource.KEPT);
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
