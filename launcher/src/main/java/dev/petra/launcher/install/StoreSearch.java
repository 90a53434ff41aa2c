// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.CRC32C;

/**
 * Looks for tables of the engine in a node's data directories: without Petra nothing reads them.
 */
final class StoreSearch {
    static final String MEND =
            "see by yourself that <data directory>/<keyspace>/<table>/rocksdb holds no table that"
                    + " you need, and add --stores-stay";

    private static final String STORE = "rocksdb";

    /** Of tables of Cassandra's own storage that are compared with the engine. */
    private static final String SHADOW = "rocksdb_shadow";

    private static final String LIVE = "LIVE";
    private static final String CREATED = "CREATED";

    /** Files that say that there is data to keep: of a migration, and of a failed snapshot. */
    private static final List<String> MARKS = List.of("MOVING", "KEEP");

    /** A snapshot that is no copy but a table's only data has this file. */
    private static final String ASIDE = "PETRA_ASIDE";

    /** Keeps a Cassandra without Petra from starting; the same name as in the plugin jar. */
    private static final String GUARD = "this_table_needs_Petra_which_was_not_loaded.db";

    /**
     * In a table's folder on each data directory but the one with its store, and there too if the
     * store is on another disk: says so where that one is missing. It goes with the last
     * generation. The same name as in the plugin jar.
     */
    private static final String MARKER = "PETRA_STORE";

    private final Set<String> tables = new TreeSet<>();
    private final Set<Path> markers = new TreeSet<>();
    private final List<Path> idleGuards = new ArrayList<>();
    private final List<Path> shadows = new ArrayList<>();
    private int snapshots;

    private StoreSearch() {}

    /**
     * Searches a node's data directories.
     *
     * @throws InstallException if they cannot be found, or not all of them can be read
     */
    static StoreSearch of(Layout layout) {
        StoreSearch search = new StoreSearch();
        for (Path data : dataDirectories(layout)) {
            try {
                if (!isDirectory(data)) throw missing(data, "is not there");
                if (isEmpty(data)) throw missing(data, "is empty");
                search.search(data);
            } catch (IOException e) {
                throw new InstallException(
                        "the data directory "
                                + data
                                + " cannot be searched for tables of Petra ("
                                + e
                                + "): mount what is missing, or run this command as root or as the"
                                + " user of Cassandra",
                        e);
            }
        }
        return search;
    }

    private static InstallException missing(Path data, String how) {
        return new InstallException(
                "the data directory "
                        + data
                        + " "
                        + how
                        + ", so tables of Petra may be where petra does not look: mount it, or "
                        + MEND);
    }

    /** Tables with data, as {@code keyspace.table}. */
    Set<String> tables() {
        return tables;
    }

    /** Files by which a table has its store in another data directory, which may be missing. */
    Set<Path> markers() {
        return markers;
    }

    /** Guards where no table has data: they would keep the node from starting without Petra. */
    List<Path> idleGuards() {
        return idleGuards;
    }

    /** Folders of shadows, which no table needs. */
    List<Path> shadows() {
        return shadows;
    }

    /** How many snapshots there are that only Petra reads. */
    int snapshots() {
        return snapshots;
    }

    /** As Cassandra finds them: those of {@code cassandra.yaml}, or one in its storage folder. */
    private static List<Path> dataDirectories(Layout layout) {
        Map<String, Object> settings = MemtableYaml.settings(TextFile.read(layout.yaml()));
        Object named = settings.get("data_file_directories");
        List<?> list =
                named instanceof List<?> several
                        ? several
                        : named == null ? List.of() : List.of(named);
        if (list.isEmpty()) {
            Optional<Path> storage = layout.storage();
            if (storage.isEmpty())
                throw new InstallException(
                        layout.yaml()
                                + " names no data_file_directories, and no cassandra.in.sh says"
                                + " where they are: "
                                + MEND);
            return List.of(storage.get().resolve("data"));
        }
        List<Path> directories = new ArrayList<>();
        for (Object each : list) {
            Path directory = Path.of(String.valueOf(each));
            if (!directory.isAbsolute())
                throw new InstallException(
                        layout.yaml()
                                + " names the data directory "
                                + directory
                                + ", which depends on where the node was started: "
                                + MEND);
            directories.add(directory);
        }
        return directories;
    }

    private void search(Path data) throws IOException {
        for (Path keyspace : directories(data))
            for (Path table : directories(keyspace)) {
                String name =
                        keyspace.getFileName() + "." + tableName(table.getFileName().toString());
                Path guard = table.resolve(STORE).resolve(GUARD);
                if (holdsData(table.resolve(STORE))) tables.add(name);
                else if (isThere(guard)) idleGuards.add(guard);
                if (isThere(table.resolve(MARKER))) markers.add(table.resolve(MARKER));
                if (isDirectory(table.resolve(SHADOW))) shadows.add(table.resolve(SHADOW));
                Path all = table.resolve("snapshots");
                if (!isDirectory(all)) continue;
                for (Path snapshot : directories(all)) {
                    if (!isDirectory(snapshot.resolve(STORE))) continue;
                    if (isThere(snapshot.resolve(ASIDE))) tables.add(name);
                    else snapshots++;
                }
            }
    }

    /** Without the table's id. */
    private static String tableName(String directory) {
        int id = directory.lastIndexOf('-');
        return id < 0 ? directory : directory.substring(0, id);
    }

    /** Whether a generation is alive, or missing; without a readable LIVE, any may be alive. */
    private static boolean holdsData(Path store) throws IOException {
        if (!isDirectory(store)) return false;
        for (String mark : MARKS) if (isThere(store.resolve(mark))) return true;
        OptionalLong live = live(store.resolve(LIVE));
        for (Path generation : directories(store)) {
            String number = generation.getFileName().toString();
            if (number.matches("[1-9][0-9]{0,17}")
                    && (live.isEmpty() || Long.parseLong(number) >= live.getAsLong())) return true;
        }
        // One that had a directory and has none, as where a disk is not mounted.
        if (!isThere(store.resolve(CREATED))) return false;
        OptionalLong created = live(store.resolve(CREATED));
        return live.isEmpty() || created.isEmpty() || live.getAsLong() <= created.getAsLong();
    }

    /** Nothing if it is damaged; one that an earlier version wrote has no checksum. */
    private static OptionalLong live(Path file) throws IOException {
        if (!isThere(file)) return OptionalLong.empty();
        String[] lines = TextFile.read(file).text().strip().split("\n", -1);
        if (!lines[0].matches("[1-9][0-9]{0,17}")
                || lines.length > 2
                || (lines.length == 2 && !lines[1].equals("crc32c=" + checksum(lines[0] + "\n"))))
            return OptionalLong.empty();
        return OptionalLong.of(Long.parseLong(lines[0]));
    }

    private static String checksum(String text) {
        CRC32C checksum = new CRC32C();
        checksum.update(text.getBytes(UTF_8));
        return HexFormat.of().toHexDigits((int) checksum.getValue());
    }

    private static List<Path> directories(Path parent) throws IOException {
        List<Path> found = new ArrayList<>();
        try (DirectoryStream<Path> all =
                Files.newDirectoryStream(parent, StoreSearch::isDirectory)) {
            all.forEach(found::add);
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return found;
    }

    private static boolean isEmpty(Path directory) throws IOException {
        try (DirectoryStream<Path> all = Files.newDirectoryStream(directory)) {
            return !all.iterator().hasNext();
        }
    }

    private static boolean isDirectory(Path path) throws IOException {
        return isThere(path) && Files.readAttributes(path, BasicFileAttributes.class).isDirectory();
    }

    /**
     * Whether a file is there. {@link Files#exists} says no also where it cannot tell.
     *
     * @throws IOException if nobody can tell: a link to nothing, which may be a disk that is not
     *     mounted, or a folder that this user may not look into
     */
    private static boolean isThere(Path path) throws IOException {
        try {
            Files.readAttributes(path, BasicFileAttributes.class);
            return true;
        } catch (NoSuchFileException e) {
            if (Files.isSymbolicLink(path)) throw e;
            return false;
        }
    }
}
