// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.DurableFile;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TextChecksum;
import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.CharacterCodingException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.io.FSWriteError;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The file {@value #NAME} in a store's directory: format version and identity as text, so that they
 * are checked before RocksDB touches anything, and so that a person can read whose directory it is.
 * It ends in a {@link TextChecksum}, which is checked before anything else in it is believed.
 */
public final class StoreDescriptor {
    private static final Logger logger = LoggerFactory.getLogger(StoreDescriptor.class);

    public static final String NAME = "PETRA";

    /** The engine's name, which settings and streams know it by. */
    public static final String ENGINE = "rocks";

    /**
     * A directory for what streams bring: of no worth once the store was opened again; do not
     * delete it by hand.
     */
    public static final String STREAMS = "streams";

    /**
     * The format that this version writes, and that of slices; {@code docs/FORMAT.md} says which
     * release reads what.
     */
    public static final int FORMAT = 2;

    /** That of a store in which an index was ever defined. */
    static final int INDEXED_FORMAT = 3;

    /** The oldest format that is read, and made into the newest when it is opened. */
    private static final int OLDEST_FORMAT = 1;

    private static final String TEMPORARY = NAME + ".tmp";

    private static final String PARTITIONER = "partitioner";
    private static final String CREATING = "creating";
    private static final String READY = "ready";

    private static final String LAST_WITHOUT_CHECKSUM =
            "(format|state|table|table_id|column_family|generation|partitioner)=.*";

    private final Path directory;
    private final StoreSpec spec;

    public StoreDescriptor(StoreSpec spec) {
        this.directory = spec.directory();
        this.spec = spec;
    }

    /**
     * Prepares the directory for RocksDB.
     *
     * @return true if the store is to be created, false if it is there
     * @throws CorruptStoreException if something else is there; nothing was changed
     */
    public boolean prepare() {
        Path file = directory.resolve(NAME);
        try {
            // What a failing disk does not tell is there: to write it anew would be the end of it.
            if (Files.notExists(file)) {
                if (!Files.notExists(directory) && !isEmpty())
                    throw new CorruptStoreException(
                            directory
                                    + " is not empty and has no file "
                                    + NAME
                                    + ": it is no store of this engine, or the file was removed."
                                    + " Move the directory away, or restore it whole from a"
                                    + " snapshot.");
                Files.createDirectories(directory);
                DurableFile.syncParent(directory);
                write(CREATING, FORMAT);
                return true;
            }
            Properties found = read(file);
            check(found, file);
            if (READY.equals(found.getProperty("state"))) {
                // Before anything is written that an older version would misread.
                if (format(found) < FORMAT) alone(() -> write(READY, FORMAT));
                return false;
            }
            if (!CREATING.equals(found.getProperty("state")))
                throw damaged(
                        file,
                        "its state is '" + found.getProperty("state") + "', not '" + READY + "'",
                        null);
            // A crash while it was being created: nothing was ever acknowledged.
            alone(() -> deleteAllBut(file));
            return true;
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
    }

    /** Says that creation is complete. */
    public void ready() {
        write(READY, FORMAT);
    }

    /** Whether an index was ever defined, or was about to be. */
    boolean isIndexed() {
        return format(read(directory.resolve(NAME))) >= INDEXED_FORMAT;
    }

    /** Says so before it is: an older version would not see the column family, and lose entries. */
    void indexed() {
        if (!isIndexed()) write(READY, INDEXED_FORMAT);
    }

    private static int format(Properties found) {
        return Integer.parseInt(found.getProperty("format"));
    }

    /** Copies the file into another directory of the same store. */
    public void copyTo(Path target) throws IOException {
        DurableFile.write(
                target.resolve(NAME),
                target.resolve(TEMPORARY),
                Files.readString(directory.resolve(NAME)));
    }

    /**
     * Makes this directory a store with another's data.
     *
     * @throws CorruptStoreException if there is no store that this table could read; nothing was
     *     written
     */
    public void copyFrom(Path source) {
        Path file = source.resolve(NAME);
        if (!Files.exists(file))
            throw new CorruptStoreException(
                    source + " is no store of this engine: it has no file " + NAME + ".");
        Properties found = read(file);
        checkFormat(found, file);
        check(found, file, Map.of(PARTITIONER, partitioner()));
        if (!READY.equals(found.getProperty("state")))
            throw new CorruptStoreException(source + " was never completed, there is no data.");
        try (var files = Files.newDirectoryStream(source)) {
            Files.createDirectory(directory);
            for (Path each : files) if (Files.isRegularFile(each)) copyInto(each);
            // The names of the files that are linked.
            DurableFile.syncNames(directory);
            DurableFile.syncParent(directory);
        } catch (IOException e) {
            throw new FSWriteError(e, directory);
        }
        write(READY, Math.max(FORMAT, format(found)));
    }

    /** Files of data never change, so that both may have them. */
    private void copyInto(Path file) throws IOException {
        String name = String.valueOf(file.getFileName());
        if (name.equals(NAME) || name.equals("LOCK") || name.startsWith("LOG")) return;
        if (name.endsWith(".sst") || name.endsWith(".blob")) {
            try {
                Files.createLink(directory.resolve(name), file);
                return;
            } catch (UnsupportedOperationException | FileSystemException e) {
                logger.debug("{} is copied, since it cannot be linked", file, e);
            }
        }
        Path copy = directory.resolve(name);
        Files.copy(file, copy);
        DurableFile.sync(copy);
    }

    /** Also if all that is there is the first step of a creation that a crash ended. */
    private boolean isEmpty() throws IOException {
        try (var files = Files.list(directory)) {
            return files.allMatch(file -> file.endsWith(TEMPORARY));
        }
    }

    private interface Change {
        void make() throws IOException;
    }

    /** Not while another process has the store open, or is just creating it. */
    @SuppressWarnings("try") // the lock is held, not used
    private void alone(Change change) throws IOException {
        try (DirectoryLock lock = DirectoryLock.take(directory)) {
            change.make();
        }
    }

    private void deleteAllBut(Path file) throws IOException {
        try (var files = Files.list(directory)) {
            for (Path other : (Iterable<Path>) files::iterator)
                if (!other.equals(file) && !other.endsWith(DirectoryLock.NAME)) Files.delete(other);
        }
    }

    private static Properties read(Path file) {
        try {
            Properties properties = new Properties();
            properties.load(new StringReader(checked(file, Files.readString(file))));
            return properties;
        } catch (IllegalArgumentException e) {
            // Half of an escape.
            throw damaged(file, String.valueOf(e.getMessage()), e);
        } catch (CharacterCodingException e) {
            throw damaged(file, "it is no text", e);
        } catch (IOException e) {
            throw new FSReadError(e, file);
        }
    }

    /**
     * The text without its checksum, and as it is if an earlier version wrote it, which wrote none.
     */
    private static String checked(Path file, String text) {
        String lines = TextChecksum.strip(text);
        if (lines != null) return lines;
        // One damaged byte of the checksum's line, or of the end of the one before, does not make
        // this a file of an earlier version.
        String last = text.stripTrailing();
        last = last.substring(last.lastIndexOf('\n') + 1);
        if (text.contains(TextChecksum.BEGIN) || !last.matches(LAST_WITHOUT_CHECKSUM))
            throw damaged(file, "it does not have the checksum of what it says", null);
        return text;
    }

    private static CorruptStoreException damaged(
            Path file, String how, @Nullable Throwable reason) {
        return new CorruptStoreException(
                file
                        + " is damaged: "
                        + how
                        + ". The store was not touched. Restore "
                        + NAME
                        + " from a snapshot of the table, or the store as a whole. If you know"
                        + " which line is wrong, correct it and delete the line of "
                        + TextChecksum.BEGIN
                        + "; docs/FORMAT.md says what the lines are.",
                reason);
    }

    /**
     * Refuses a store of a format that this version does not read. A file that is damaged, or that
     * its disk does not give, is no sign of another version: the opening of that store says so.
     *
     * @throws CorruptStoreException for such; nothing was changed
     */
    public static void checkFormat(Path directory) {
        Path file = directory.resolve(NAME);
        if (!Files.exists(file)) return;
        Properties found;
        try {
            found = read(file);
        } catch (CorruptStoreException | FSReadError e) {
            logger.warn("{} cannot be read, so its store will not be opened", file, e);
            return;
        }
        if (found.getProperty("format", "none").matches("[0-9]+")) checkFormat(found, file);
    }

    private static void checkFormat(Properties found, Path file) {
        String format = found.getProperty("format", "none");
        if (!format.matches("[" + OLDEST_FORMAT + "-" + INDEXED_FORMAT + "]"))
            throw new CorruptStoreException(
                    file
                            + " says format "
                            + format
                            + "; this version reads formats "
                            + OLDEST_FORMAT
                            + " to "
                            + INDEXED_FORMAT
                            + ". Use the version that wrote it.");
    }

    private void check(Properties found, Path file) {
        checkFormat(found, file);
        check(found, file, identity());
    }

    private void check(Properties found, Path file, Map<String, String> wanted) {
        wanted.forEach(
                (key, value) -> {
                    String is = found.getProperty(key, "none");
                    if (!is.equals(value))
                        throw new CorruptStoreException(
                                file.getParent()
                                        + " is not the store of "
                                        + spec.displayName()
                                        + ": "
                                        + file
                                        + " says "
                                        + key
                                        + " "
                                        + is
                                        + " where "
                                        + value
                                        + " belongs. Move the directory back to where it came"
                                        + " from.");
                });
    }

    /** What must agree. Keyspace and table name are told by the id, and may be renamed. */
    private Map<String, String> identity() {
        Map<String, String> identity = new LinkedHashMap<>();
        identity.put("table_id", spec.metadata().id.toString());
        identity.put("column_family", spec.columnFamily());
        identity.put("generation", Long.toString(spec.generation()));
        identity.put(PARTITIONER, partitioner());
        return identity;
    }

    private String partitioner() {
        return spec.metadata().get().partitioner.getClass().getName();
    }

    private void write(String state, int format) {
        StringBuilder text = new StringBuilder();
        text.append("# A table of Apache Cassandra in RocksDB, kept by Petra. Do not edit.\n");
        text.append("format=").append(format).append('\n');
        text.append("state=").append(state).append('\n');
        text.append("table=").append(spec.displayName()).append('\n');
        identity().forEach((key, value) -> text.append(key).append('=').append(value).append('\n'));
        try {
            DurableFile.write(
                    directory.resolve(NAME),
                    directory.resolve(TEMPORARY),
                    TextChecksum.append(text.toString()));
        } catch (IOException e) {
            throw new FSWriteError(e, directory.resolve(NAME));
        }
    }
}
