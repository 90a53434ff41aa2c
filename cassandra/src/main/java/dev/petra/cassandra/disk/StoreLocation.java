// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static java.nio.charset.StandardCharsets.UTF_8;

import com.google.common.collect.Lists;
import dev.petra.engine.CorruptStoreException;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.db.DisallowedDirectories;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.service.snapshot.SnapshotManifest;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where the stores of one table lie.
 *
 * <pre>
 *   &lt;table directory&gt;/rocksdb/LIVE                       the generation that is alive
 *   &lt;table directory&gt;/rocksdb/3/                         that generation: the engine's directory
 *   &lt;table directory&gt;/rocksdb/CREATED                    that there is one: {@link CreatedMark}
 *   &lt;table directory&gt;/rocksdb/MOVING                     into or out of the engine: {@link MigrationMark}
 *   &lt;table directory&gt;/rocksdb/streams/                   SSTables that are being sent
 *   &lt;table directory&gt;/rocksdb/KEEP                       do not delete: see {@link #KEEP}
 *   &lt;table directory&gt;/rocksdb/this_table_needs_Petra…db  see {@link StoreGuard}
 *   &lt;table directory&gt;/snapshots/&lt;tag&gt;/rocksdb/           the same layout once more, one generation
 *   &lt;table directory&gt;/PETRA_STORE                         see {@link StoreMarker}; mostly elsewhere
 * </pre>
 *
 * <p>A snapshot is restored by putting its {@code rocksdb} in the place of the table's.
 */
public final class StoreLocation {
    private static final Logger logger = LoggerFactory.getLogger(StoreLocation.class);

    /** The folder in the table's directory. */
    public static final String NAME = "rocksdb";

    /**
     * A file that says that the data must stay although the table was dropped, because its snapshot
     * could not be taken. An operator removes it together with the data.
     */
    public static final String KEEP = "KEEP";

    /**
     * A file in a snapshot that says that it is not a copy but a table's only data: the schema did
     * not know the table, and may know it again.
     */
    static final String ASIDE = "PETRA_ASIDE";

    /** A pattern of what the folder of a generation is called: its number, from 1 on. */
    public static final String GENERATION = "[1-9][0-9]{0,17}";

    private static final String MANIFEST = "manifest.json";

    private static final Set<String> BEGUN = Set.of(LivePointer.NAME, MigrationMark.NAME, KEEP);

    private final Path tableDirectory;
    private final Path root;
    private final LivePointer pointer;
    private final Disk disk;

    /** The table's directories in the other data directories of the node. */
    private final List<Path> others;

    public StoreLocation(Path tableDirectory, Disk disk) {
        this(tableDirectory, List.of(), disk);
    }

    private StoreLocation(Path tableDirectory, List<Path> others, Disk disk) {
        this.disk = disk;
        this.others = others;
        this.tableDirectory = tableDirectory;
        this.root = tableDirectory.resolve(NAME);
        this.pointer = new LivePointer(root, disk);
    }

    /**
     * What a table's directories may be called. Cassandra before 2.1 made them without an ID. Where
     * there is one of these in any data directory, a table of that name has these, whatever its ID.
     */
    public static List<String> directoryNames(TableMetadata table) {
        return List.of(table.getTableDirectoryName(), table.getTableName());
    }

    /**
     * The place of a table with these directories, one per data directory of the node: where stores
     * are already, otherwise in the first that can be written.
     *
     * @throws CorruptStoreException if there are stores in more than one
     */
    public static StoreLocation locate(List<Path> tableDirectories, Disk disk) {
        return locate(tableDirectories, null, disk);
    }

    /**
     * The same.
     *
     * @param wanted where a first store is to be; null for the first that can be written
     */
    public static StoreLocation locate(
            List<Path> tableDirectories, @Nullable Path wanted, Disk disk) {
        List<Path> holders =
                tableDirectories.stream().filter(d -> isThere(d.resolve(NAME))).toList();
        if (holders.size() > 1)
            throw new CorruptStoreException(
                    "One table has stores in several places: "
                            + holders.stream().map(d -> d.resolve(NAME)).toList()
                            + ". Keep the one that holds the table's data and move the others"
                            + " away.");
        if (holders.isEmpty() && tableDirectories.isEmpty())
            throw new CorruptStoreException(
                    "The table has no directory in any data directory of the node: check that the"
                            + " disks are mounted and writable.");
        Path holder;
        if (!holders.isEmpty()) holder = holders.get(0);
        else holder = wanted != null ? wanted : forNewStore(tableDirectories);
        List<Path> others = tableDirectories.stream().filter(d -> !d.equals(holder)).toList();
        return new StoreLocation(holder, others, disk);
    }

    /**
     * Where a store of a table may be that its directories do not show. Cassandra takes those
     * without an ID as soon as one is there, as an operator may have made it, and passes over the
     * others.
     *
     * @return the reason why the table must not be used, or null if there is none
     * @throws CorruptStoreException if a directory that is passed over is a link to nothing
     * @throws FSReadError if nobody can tell
     */
    public static @Nullable String hidden(List<Path> tableDirectories, TableMetadata table) {
        List<Path> hidden =
                tableDirectories.stream()
                        .map(directory -> directory.resolveSibling(table.getTableDirectoryName()))
                        .filter(each -> !tableDirectories.contains(each) && hasTraces(each))
                        .toList();
        if (hidden.isEmpty()) return null;
        return "The data of table "
                + table
                + " may be in "
                + hidden
                + ", which Cassandra passes over because there is "
                + tableDirectories
                + " as well: such a directory without the table's ID, as Cassandra before 2.1 made"
                + " them, is used for any table of that name, and the table would look empty. Stop"
                + " the node. If the data is in the former, move the latter out of the data"
                + " directories, all of them; otherwise move the former. Then start the node.";
    }

    private static boolean hasTraces(Path tableDirectory) {
        try {
            return isThere(tableDirectory)
                    && (isThere(tableDirectory.resolve(NAME))
                            || isThere(tableDirectory.resolve(StoreMarker.NAME))
                            || !aside(tableDirectory).isEmpty());
        } catch (IOException e) {
            throw new FSReadError(e, tableDirectory.toString());
        }
    }

    private static Path forNewStore(List<Path> tableDirectories) {
        return tableDirectories.stream()
                .filter(StoreLocation::isWritable)
                .findFirst()
                .orElse(tableDirectories.get(0));
    }

    /** Not where Cassandra would write nothing, by disk_failure_policy: best_effort. */
    public static boolean isWritable(Path tableDirectory) {
        return Files.isWritable(tableDirectory)
                && !DisallowedDirectories.isUnwritable(new File(tableDirectory));
    }

    /** The folder of all generations; may not exist. */
    public Path root() {
        return root;
    }

    /** The engine's directory of one generation; may not exist. */
    public Path generation(long generation) {
        return root.resolve(Long.toString(generation));
    }

    /** The table's directory, or the snapshot's. */
    public Path parent() {
        return tableDirectory;
    }

    /** Where a snapshot of the table goes. */
    public StoreLocation snapshot(String tag) {
        return new StoreLocation(
                tableDirectory.resolve(Directories.SNAPSHOT_SUBDIR).resolve(tag), Disk.REAL);
    }

    /** What {@link LivePointer} says. */
    public OptionalLong live() {
        return pointer.read();
    }

    /** Moves {@link LivePointer}, durably, and sees to it that there is a {@link StoreGuard}. */
    public void makeLive(long generation) {
        try {
            Disk.makeDirectory(disk, root);
            if (Files.notExists(root.resolve(LivePointer.NAME))) syncOwnNames();
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
        guard();
        pointer.write(generation);
    }

    /** Cassandra makes the directories of a keyspace and a table, and syncs the name of neither. */
    private void syncOwnNames() throws IOException {
        Path keyspace = tableDirectory.getParent();
        Path data = keyspace == null ? null : keyspace.getParent();
        if (keyspace != null) disk.syncDirectory(keyspace);
        if (data != null) disk.syncDirectory(data);
    }

    /**
     * Sees to it that there is a {@link StoreGuard} if the folder is there.
     *
     * @throws FSWriteError if it cannot be written
     */
    public void guard() {
        if (!Files.isDirectory(root)) return;
        try {
            StoreGuard.put(root);
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
    }

    /**
     * The same where there is anything to guard. Otherwise there is no guard afterwards: the table
     * was migrated out of the engine or truncated, and Cassandra without Petra shows it as it is.
     *
     * @throws FSWriteError if it cannot be written or deleted
     */
    public void guardOrUnguard() {
        if (!generations().isEmpty()
                || isKept()
                || isThere(root.resolve(MigrationMark.NAME))
                || mayBeLost()) {
            guard();
            return;
        }
        try {
            StoreGuard.remove(root);
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
    }

    /**
     * Has the table's other directories say that the store is here, by {@link StoreMarker}, and
     * this one if the folder is on a disk of its own, which may be missing as well. To be called
     * before the first generation, and at each start.
     */
    public void mark(TableId id) {
        StoreMarker.write(disk, marked(), id, root);
    }

    /**
     * Whether each of these directories is one that {@link #mark} was called for. Otherwise its
     * disk was replaced, or could not be written or read, or the data directory is new.
     */
    public boolean isMarked(TableId id) {
        return marked().stream().allMatch(directory -> StoreMarker.isIn(directory, id));
    }

    private List<Path> marked() {
        List<Path> marked = new ArrayList<>(others);
        if (isOnDiskOfItsOwn()) marked.add(tableDirectory);
        return marked;
    }

    /** Whether the folder is a link to another disk, or one is mounted there. */
    private boolean isOnDiskOfItsOwn() {
        try {
            return !Files.getFileStore(root).equals(Files.getFileStore(tableDirectory));
        } catch (IOException e) {
            // A marker too many does no harm, and one that is missing stops nothing.
            logger.warn(
                    "The system does not say which disk {} is on. {} is written, as for a store on"
                            + " another disk than its table",
                    root,
                    tableDirectory.resolve(StoreMarker.NAME),
                    e);
            return true;
        }
    }

    /** What {@link MigrationMark} says, or null if the table is whole where it is. */
    public @Nullable MigrationMark migrationMark() {
        return MigrationMark.read(root);
    }

    /** Says that the table is on its way, durably. */
    public void markMigration(MigrationMark mark) {
        mark.write(root, disk);
    }

    /** Says that the table is no longer on its way, durably. */
    public void unmarkMigration() {
        MigrationMark.remove(root, disk);
    }

    /**
     * The generations that have a directory.
     *
     * @throws CorruptStoreException if one is a link to nothing
     * @throws FSReadError if nobody can tell
     */
    public SortedSet<Long> generations() {
        SortedSet<Long> found = new TreeSet<>();
        for (Path entry : entries())
            if (isNameOfGeneration(entry) && isDirectory(entry)) found.add(number(entry));
        return found;
    }

    private static boolean isNameOfGeneration(Path entry) {
        return String.valueOf(entry.getFileName()).matches(GENERATION);
    }

    private static long number(Path generation) {
        return Long.parseLong(String.valueOf(generation.getFileName()));
    }

    /**
     * Whether there is anything by which a store begins or ends. There is nothing in the folder
     * where a disk is mounted, while it is not.
     *
     * @throws CorruptStoreException if the folder is a link to nothing
     * @throws FSReadError if it cannot be read
     */
    boolean isBegun() {
        return entries().stream()
                .anyMatch(
                        entry ->
                                isNameOfGeneration(entry)
                                        || BEGUN.contains(String.valueOf(entry.getFileName())));
    }

    /** What is in the folder; nothing if it is not there. */
    private List<Path> entries() {
        return in(root, new ArrayList<>(), Lists::newArrayList);
    }

    /**
     * Asks of what is in a directory; returns {@code none} if it is not there.
     *
     * @throws FSReadError if it cannot be read
     */
    private static <T> T in(Path directory, T none, Function<DirectoryStream<Path>, T> question) {
        if (!isThere(directory)) return none;
        try (DirectoryStream<Path> entries = Files.newDirectoryStream(directory)) {
            return question.apply(entries);
        } catch (DirectoryIteratorException e) {
            throw new FSReadError(e.getCause(), directory.toString());
        } catch (IOException e) {
            throw new FSReadError(e, directory.toString());
        }
    }

    private static boolean isDirectory(Path entry) {
        if (!isThere(entry)) return false;
        try {
            return Files.readAttributes(entry, BasicFileAttributes.class).isDirectory();
        } catch (IOException e) {
            throw new FSReadError(e, entry.toString());
        }
    }

    /**
     * Whether a generation has a directory.
     *
     * @throws CorruptStoreException if it is a link to nothing
     * @throws FSReadError if nobody can tell
     */
    public boolean hasGeneration(long generation) {
        return isThere(generation(generation));
    }

    /**
     * Tells the directory of a generation from another that comes to its place.
     *
     * @return null if it is not there, or the file system cannot tell
     * @throws FSReadError if nobody can tell whether it is there
     */
    public @Nullable Object identity(long generation) {
        Path path = generation(generation);
        try {
            return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
        } catch (NoSuchFileException e) {
            return null;
        } catch (IOException e) {
            throw new FSReadError(e, path.toString());
        }
    }

    /**
     * Makes the directory of a generation. What is there afterwards is the caller's.
     *
     * @return false if there is something of that name
     * @throws FSWriteError if that failed
     */
    public boolean createGeneration(long generation) {
        try {
            Files.createDirectory(generation(generation));
            return true;
        } catch (FileAlreadyExistsException e) {
            return false;
        } catch (IOException e) {
            throw new FSWriteError(e, generation(generation).toString());
        }
    }

    /**
     * Undoes {@link #createGeneration}. Idempotent.
     *
     * @throws IOException if there is something in the directory, or it cannot be deleted
     */
    public void deleteEmptyGeneration(long generation) throws IOException {
        Files.deleteIfExists(generation(generation));
    }

    /**
     * Whether a file or folder of a table is there. {@link Files#exists} says no also of a link to
     * a disk that is not mounted, and of a disk that fails; a table must not look empty because of
     * that.
     *
     * @throws CorruptStoreException if it is a link to nothing
     * @throws FSReadError if nobody can tell
     */
    static boolean isThere(Path path) {
        try {
            Files.readAttributes(path, BasicFileAttributes.class);
            return true;
        } catch (NoSuchFileException e) {
            if (!Files.isSymbolicLink(path)) return false;
            throw new CorruptStoreException(
                    path
                            + " is a link to a file or folder that is not there. Mount the disk"
                            + " that it points to, or remove the link if the table's data is not"
                            + " wanted, and restart the node.");
        } catch (IOException e) {
            throw new FSReadError(e, path.toString());
        }
    }

    /**
     * Says, durably, that a generation has a directory with a store in it, by {@link CreatedMark}.
     * Does not throw.
     */
    public void markCreated(long generation) {
        CreatedMark.write(disk, root, generation);
    }

    /**
     * Whether the directory of the generation that is alive is gone, or empty, as where a disk is
     * mounted while it is not; the table must not look empty then. Also without LIVE.
     *
     * @throws CorruptStoreException if a file that tells is damaged, or the directory is a link to
     *     nothing
     * @throws FSReadError if nobody can tell
     */
    public boolean isLost() {
        if (!isThere(root.resolve(CreatedMark.NAME))) return false;
        OptionalLong live = live();
        // Where it is there, nothing depends on the file.
        if (live.isPresent() && hasFiles(generation(live.getAsLong()))) return false;
        OptionalLong created = created();
        // No crash leaves a lower number in LIVE: it was put back from elsewhere, or written by
        // hand.
        return created.isPresent()
                && (live.isPresent()
                        ? live.getAsLong() <= created.getAsLong()
                        : !hasFiles(generation(created.getAsLong())));
    }

    /**
     * What {@link #markCreated} has said last; empty if it was never called.
     *
     * @throws CorruptStoreException if the file is damaged
     * @throws FSReadError if it cannot be read
     */
    public OptionalLong created() {
        return CreatedMark.read(root);
    }

    private static boolean hasFiles(Path directory) {
        return in(directory, false, files -> files.iterator().hasNext());
    }

    /** Damage concerns one table, and must not keep the node from starting. */
    private boolean mayBeLost() {
        try {
            return isLost();
        } catch (CorruptStoreException | FSError e) {
            return true;
        }
    }

    /** Where SSTables lie that are being sent; of no worth after a restart. */
    public Path streams() {
        return root.resolve("streams");
    }

    /**
     * Whether a generation that is alive is here, or {@linkplain #isLost was}. Without LIVE, any
     * generation counts.
     */
    public boolean holdsData() {
        SortedSet<Long> found = generations();
        OptionalLong live = live();
        // What is below LIVE is garbage.
        if (!found.isEmpty() && (live.isEmpty() || found.last() >= live.getAsLong())) return true;
        return isLost();
    }

    /**
     * Whether an operator must decide about this data.
     *
     * @throws FSReadError if nobody can tell
     */
    public boolean isKept() {
        return isThere(root.resolve(KEEP));
    }

    /** Leaves the mark of {@link #isKept()}, with the reason in it, durably. */
    public void keep(String reason) throws IOException {
        Disk.replace(disk, root.resolve(KEEP), (reason + "\n").getBytes(UTF_8));
    }

    /** Removes that mark: nothing is left here that was to be kept. Idempotent. */
    public void keepNoMore() throws IOException {
        Files.deleteIfExists(root.resolve(KEEP));
    }

    /**
     * Moves one generation, which no engine has open, to where a snapshot of it would be. The
     * folder of all that the snapshot has is the caller's to make durable.
     *
     * @throws IOException if it is not there whole; it is then here still
     */
    public void moveToSnapshot(long generation, String tag) throws IOException {
        StoreLocation target = snapshot(tag);
        if (target.live().isPresent())
            throw new IOException("there is a snapshot already in " + target.root);
        target.deleteHalf();
        Files.createDirectories(target.root);
        // What it goes into must be there, whatever crashes, before it leaves where it was.
        disk.syncDirectory(target.tableDirectory);
        // Nor is it to be missed here then.
        forgetCreated();
        // The pointer last: a snapshot is whole once it says which generation it holds.
        Files.move(generation(generation), target.generation(generation));
        try {
            target.markCreated(generation);
            target.makeLive(generation);
        } catch (FSWriteError e) {
            Files.move(target.generation(generation), generation(generation));
            throw new IOException(e);
        }
        disk.syncDirectory(root);
    }

    private void forgetCreated() throws IOException {
        if (Files.deleteIfExists(root.resolve(CreatedMark.NAME))) disk.syncDirectory(root);
    }

    /**
     * Makes a snapshot of all that is here, which no engine has open, by renaming the folder.
     *
     * @param manifest that Cassandra shall know of it
     * @return the snapshot
     * @throws IOException if that failed; everything is here still, and nothing there, unless it is
     *     only not known whether the renaming is durable
     */
    StoreLocation moveAside(String tag, SnapshotManifest manifest) throws IOException {
        StoreLocation target = snapshot(tag);
        Path snapshot = target.tableDirectory;
        if (Files.exists(target.root))
            throw new IOException("there is a snapshot already in " + target.root);
        try {
            Disk.makeDirectories(disk, tableDirectory, snapshot);
            manifest.serializeToJsonFile(new File(snapshot.resolve(MANIFEST)));
            Files.createFile(snapshot.resolve(ASIDE));
            // What it goes into must be there, whatever crashes, before it leaves where it was.
            disk.syncDirectory(snapshot);
            disk.rename(root, target.root);
        } catch (IOException | RuntimeException e) {
            try {
                // Each start would leave one more snapshot with nothing in it.
                deleteAside(snapshot);
            } catch (IOException suppressed) {
                e.addSuppressed(suppressed);
            }
            throw e;
        }
        disk.syncDirectory(snapshot);
        disk.syncDirectory(tableDirectory);
        return target;
    }

    /** Deletes what {@link #moveAside} makes beside the store, and the folder if that was all. */
    private static void deleteAside(Path snapshot) throws IOException {
        Files.deleteIfExists(snapshot.resolve(ASIDE));
        Files.deleteIfExists(snapshot.resolve(MANIFEST));
        Files.deleteIfExists(snapshot);
    }

    /**
     * Undoes {@link #moveAside} for a table that the schema knows after all, as one that an old
     * schema lacked and the node's peers told it of.
     *
     * @param tableDirectories the table's directories, one per data directory of the node
     * @return the snapshot that it was; null if there is none
     * @throws CorruptStoreException if there are several
     * @throws FSWriteError if it could not be moved
     */
    static @Nullable Path bringBack(List<Path> tableDirectories) {
        List<Path> aside = new ArrayList<>();
        try {
            for (Path table : tableDirectories) {
                if (isThere(table.resolve(NAME))) return null;
                aside.addAll(aside(table));
            }
            if (aside.size() > 1)
                throw new CorruptStoreException(
                        "Several stores of one table were moved aside: "
                                + aside
                                + ". Stop the node, move the folder "
                                + NAME
                                + " of the one that holds the table's data to the table's"
                                + " directory, and clear the snapshots.");
            if (aside.isEmpty()) return null;
            Path snapshot = aside.get(0);
            for (Path table : tableDirectories)
                if (snapshot.startsWith(table)) {
                    Files.move(
                            snapshot.resolve(NAME),
                            table.resolve(NAME),
                            StandardCopyOption.ATOMIC_MOVE);
                    Disk.REAL.syncDirectory(table);
                }
            deleteAside(snapshot);
            return snapshot;
        } catch (IOException e) {
            throw new FSWriteError(e, tableDirectories.toString());
        }
    }

    private static List<Path> aside(Path table) throws IOException {
        Path snapshots = table.resolve(Directories.SNAPSHOT_SUBDIR);
        // Not behind a link: nothing is moved aside to another disk.
        if (Files.notExists(snapshots) || Files.isRegularFile(snapshots)) return List.of();
        List<Path> aside = new ArrayList<>();
        try (DirectoryStream<Path> all = Files.newDirectoryStream(snapshots)) {
            for (Path snapshot : all)
                if (Files.isDirectory(snapshot)
                        && isThere(snapshot.resolve(ASIDE))
                        && isThere(snapshot.resolve(NAME))) aside.add(snapshot);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return aside;
    }

    /**
     * Deletes the stores of a table that was dropped or has left its engine. Idempotent, and begun
     * again by the next start after a crash or an error: {@link LivePointer} is moved past the
     * generations before the first file goes, and goes when none of them is left, nor a {@link
     * CreatedMark} or {@link StoreMarker}; {@link MigrationMark} goes last. Half a generation is
     * thus never taken for the table's data.
     *
     * @throws FSError if something cannot be deleted, or that pointer be moved
     */
    public void delete() {
        delete(store -> {});
    }

    /**
     * The same.
     *
     * @param deleteStore is given each generation's directory first. If it throws, the generations
     *     are garbage, of which some may be deleted, and all else is as it was
     */
    public void delete(Consumer<Path> deleteStore) {
        if (Files.isSymbolicLink(root)) {
            deleteMarkers();
            disk.delete(root);
            return;
        }
        List<Path> left = entries();
        List<Path> generations = left.stream().filter(StoreLocation::isNameOfGeneration).toList();
        movePast(generations);
        for (Path generation : generations)
            if (Files.isDirectory(generation, LinkOption.NOFOLLOW_LINKS))
                deleteStore.accept(generation);
        generations.forEach(disk::delete);
        // Before LIVE: without it, it says that a generation is missing.
        Path created = root.resolve(CreatedMark.NAME);
        boolean wasCreated = left.remove(created);
        disk.delete(created);
        if (wasCreated || !generations.isEmpty()) syncNames();
        deleteMarkers();
        Path live = root.resolve(LivePointer.NAME);
        Path moving = root.resolve(MigrationMark.NAME);
        left.removeAll(generations);
        left.removeAll(List.of(live, moving));
        left.forEach(disk::delete);
        disk.delete(live);
        disk.delete(moving);
        disk.delete(root);
    }

    /** Also here, where one stays if the store was moved to this disk. */
    private void deleteMarkers() {
        StoreMarker.delete(disk, others);
        StoreMarker.delete(disk, List.of(tableDirectory));
    }

    /** Says that these are garbage. */
    private void movePast(List<Path> generations) {
        OptionalLong last = generations.stream().mapToLong(StoreLocation::number).max();
        if (last.isPresent() && !isBelow(last.getAsLong())) pointer.write(last.getAsLong() + 1);
    }

    /** Whether a generation is known to be garbage. */
    private boolean isBelow(long generation) {
        try {
            OptionalLong live = live();
            return live.isPresent() && generation < live.getAsLong();
        } catch (CorruptStoreException e) {
            return false;
        }
    }

    private void syncNames() {
        try {
            disk.syncDirectory(root);
        } catch (IOException e) {
            throw new FSWriteError(e, root.toString());
        }
    }

    /**
     * Deletes what is here of a snapshot that is not whole; at first {@link LivePointer}, by which
     * it would look whole. Idempotent.
     *
     * @throws FSWriteError if something cannot be deleted
     */
    public void deleteHalf() {
        disk.delete(root.resolve(LivePointer.NAME));
        disk.delete(root);
    }

    @Override
    public String toString() {
        return root.toString();
    }
}
