// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.agent.Weaving;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.disk.OrphanStores;
import dev.petra.cassandra.disk.StoreGuard;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.host.Host;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.InheritingClass;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.exceptions.StartupException;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.FSReadError;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks what must be right before a node with engine tables starts. Runs before Cassandra reads
 * its schema, since Cassandra would replace a configuration that it cannot read by its own
 * memtable, and the tables would look empty.
 */
public final class StartupCheck {
    private static final Logger logger = LoggerFactory.getLogger(StartupCheck.class);

    /** The system property that lets another release start. */
    static final String ALLOW_UNKNOWN = "petra.allow_unknown_cassandra";

    private static final String DEFAULT = "default";

    /** Folders that Cassandra's check of SSTables does not look into, wherever they are. */
    private static final Set<String> PASSED_OVER =
            Set.of(Directories.SNAPSHOT_SUBDIR, Directories.BACKUPS_SUBDIR);

    private static volatile boolean passed;

    private StartupCheck() {}

    /**
     * Runs all checks.
     *
     * @throws StartupException naming what is wrong and the mend; Cassandra logs it and exits
     */
    public static void run() throws StartupException {
        String weaving = Weaving.defect();
        if (weaving != null) throw wrongConfig(weaving);
        checkRelease(
                FBUtilities.getReleaseVersionString(),
                Weaving.closestRelease(),
                Weaving.changedMethods(),
                Weaving.isInsisted());
        checkHost(Host::current);
        try {
            OrphanStores.ttl();
        } catch (ConfigurationException e) {
            throw wrongConfig(String.valueOf(e.getMessage()));
        }
        Set<String> configurations = openConfigurations();
        // One for shadows reads no table's data.
        if (configurations.stream().allMatch(name -> PetraMemtableFactory.named(name) == null))
            checkNoStores(dataDirectories());
        else checkFormats(dataDirectories(), Engines.opened());
        guardStores(dataDirectories());
        passed = true;
        logger.info(
                "Petra {} with Cassandra {}, woven {}; memtable configurations {}",
                StartupCheck.class.getPackage().getImplementationVersion(),
                FBUtilities.getReleaseVersionString(),
                Weaving.form(),
                configurations);
    }

    /**
     * Refuses to open a table if the checks did not run, which means that the place where they are
     * called was not woven.
     */
    static void requirePassed() {
        if (!passed)
            throw new IllegalStateException(
                    "The start-up checks of the storage engine did not run: the agent could not be"
                            + " built into this Cassandra, or one that was not woven comes first"
                            + " on the class path. See the log of its start.");
    }

    /**
     * Refuses a Cassandra whose methods, of those that Petra changes, are not those of a release
     * that it knows.
     *
     * @param closest the known release that is most like it
     * @param changed the methods that are not as in that
     * @param insisted whether its builder was told of them
     */
    static void checkRelease(String release, String closest, List<String> changed, boolean insisted)
            throws StartupException {
        if (changed.isEmpty()) {
            Set<String> known = Weaving.knownReleases();
            if (!known.contains(release))
                logger.warn(
                        "Cassandra {} was not tested with this version of Petra, which knows {};"
                                + " it starts because the methods that Petra changes are those of"
                                + " {}",
                        release,
                        known,
                        closest);
            return;
        }
        String what = Weaving.difference(release, closest, changed);
        if (!insisted && !Boolean.getBoolean(ALLOW_UNKNOWN))
            throw wrongConfig(
                    what
                            + ". Install the version of Petra that knows it, or start at your own"
                            + " risk with -D"
                            + ALLOW_UNKNOWN
                            + "=true.");
        logger.warn(
                "{}. It starts because {}",
                what,
                insisted ? "it was woven so" : "-D" + ALLOW_UNKNOWN + "=true is set");
    }

    /** Refuses a Cassandra of which this jar has no {@link Host}, before anything needs it. */
    static void checkHost(Supplier<Host> current) throws StartupException {
        try {
            Objects.requireNonNull(current.get());
        } catch (RuntimeException | LinkageError e) {
            Throwable reason =
                    e instanceof ExceptionInInitializerError && e.getCause() != null
                            ? e.getCause()
                            : e;
            throw new StartupException(
                    StartupException.ERR_WRONG_CONFIG,
                    "Petra does not fit this Cassandra, "
                            + FBUtilities.getReleaseVersionString()
                            + ": "
                            + reason.getMessage()
                            + ". Install the version of Petra that knows it.",
                    reason);
        }
    }

    private static Set<String> openConfigurations() throws StartupException {
        Map<String, InheritingClass> all = DatabaseDescriptor.getMemtableConfigurations();
        Set<String> ours = new TreeSet<>();
        if (all == null) return ours;
        for (String name : all.keySet()) {
            if (!PetraMemtable.class.getName().equals(className(all, name))) continue;
            if (name.equals(DEFAULT))
                throw wrongConfig(
                        "The memtable configuration 'default' in cassandra.yaml is a storage"
                            + " engine. Cassandra's own tables use 'default' and cannot be in an"
                            + " engine: give the engine a configuration of another name, and tables"
                            + " WITH memtable = that name.");
            try {
                // Through Cassandra's own reader, so that exactly what it will use is checked.
                MemtableParams.get(name);
            } catch (ConfigurationException e) {
                // Without its cause, whose stack would be the last lines of the log.
                throw wrongConfig(
                        "The memtable configuration '"
                                + name
                                + "' in cassandra.yaml cannot be used: "
                                + e.getMessage());
            }
            ours.add(name);
        }
        return ours;
    }

    /** The class of a configuration, its own or inherited. */
    static @Nullable String className(Map<String, InheritingClass> all, String name) {
        Set<String> seen = new HashSet<>();
        String at = name;
        while (at != null && seen.add(at)) {
            InheritingClass definition = all.get(at);
            if (definition == null) return null;
            if (definition.class_name != null) return definition.class_name;
            at = definition.inherits;
        }
        return null;
    }

    private static List<Path> dataDirectories() {
        List<Path> directories = new ArrayList<>();
        for (String directory : DatabaseDescriptor.getAllDataFileLocations())
            directories.add(Path.of(directory));
        return directories;
    }

    /** Refuses to start over data that nothing in the configuration would read. */
    static void checkNoStores(List<Path> dataDirectories) throws StartupException {
        List<Path> stores = new ArrayList<>();
        try {
            for (Path table : tableDirectories(dataDirectories)) {
                StoreLocation store = new StoreLocation(table, Disk.REAL);
                if (store.holdsData()) stores.add(store.root());
            }
        } catch (IOException | RuntimeException | FSReadError e) {
            throw new StartupException(
                    StartupException.ERR_WRONG_DISK_STATE,
                    "The data directories cannot be searched for stores: " + e.getMessage(),
                    e);
        }
        if (!stores.isEmpty())
            throw wrongConfig(
                    "There are tables in a storage engine, for instance "
                            + stores.get(0)
                            + ", but no memtable configuration in cassandra.yaml that would read"
                            + " them; they would look empty. Add, under the name that the tables"
                            + " use:\n"
                            + "memtable:\n"
                            + "  configurations:\n"
                            + "    rocks:\n"
                            + "      class_name: "
                            + PetraMemtable.class.getName()
                            + "\n"
                            + "      parameters:\n"
                            + "        engine: rocks");
    }

    /**
     * Refuses to start over stores that a newer version wrote: all tables of a node that went back
     * to an older one, so the node would run without its data.
     */
    static void checkFormats(List<Path> dataDirectories, List<StorageEngine> engines)
            throws StartupException {
        try {
            for (Path table : tableDirectories(dataDirectories)) {
                StoreLocation store = new StoreLocation(table, Disk.REAL);
                for (long generation : store.generations())
                    for (StorageEngine engine : engines)
                        engine.checkFormat(store.generation(generation));
            }
        } catch (CorruptStoreException e) {
            throw new StartupException(StartupException.ERR_WRONG_DISK_STATE, e.getMessage());
        } catch (IOException | FSReadError e) {
            throw new StartupException(
                    StartupException.ERR_WRONG_DISK_STATE,
                    "The data directories cannot be searched for stores: " + e.getMessage(),
                    e);
        }
    }

    /**
     * Puts the guard beside each store that lacks it: one that an earlier version wrote, or that
     * was restored from a snapshot. Deletes those of tables that have no store any more.
     */
    static void guardStores(List<Path> dataDirectories) throws StartupException {
        try {
            for (Path table : tableDirectories(dataDirectories))
                new StoreLocation(table, Disk.REAL).guardOrUnguard();
            Set<Path> unseen = hidingGuards(dataDirectories);
            if (!unseen.isEmpty())
                logger.warn(
                        "A Cassandra without Petra would start over the tables in {} and show them"
                                + " as empty: its check of SSTables follows no symbolic link, and"
                                + " does not look into folders of these names, so it does not see"
                                + " the file {} beside their stores",
                        unseen,
                        StoreGuard.NAME);
        } catch (CorruptStoreException e) {
            throw new StartupException(StartupException.ERR_WRONG_DISK_STATE, e.getMessage());
        } catch (IOException | FSError e) {
            throw new StartupException(
                    StartupException.ERR_WRONG_DISK_STATE,
                    "The file that keeps a Cassandra without Petra from starting cannot be written"
                            + " into the data directories or deleted there: "
                            + e.getMessage(),
                    e);
        }
    }

    /**
     * The folders because of which the check of SSTables of a Cassandra without Petra does not come
     * to a guard: links, which it does not follow, and names that it passes over.
     */
    static Set<Path> hidingGuards(List<Path> dataDirectories) throws IOException {
        Set<Path> hiding = new TreeSet<>();
        for (Path data : dataDirectories)
            for (Path table : tableDirectories(List.of(data))) {
                Path guard = new StoreLocation(table, Disk.REAL).root().resolve(StoreGuard.NAME);
                Path outermost = Files.exists(guard) ? hiding(guard, data) : null;
                if (outermost != null) hiding.add(outermost);
            }
        return hiding;
    }

    private static @Nullable Path hiding(Path guard, Path data) {
        Path outermost = null;
        for (Path at = guard.getParent(); at != null && at.startsWith(data); at = at.getParent())
            if (Files.isSymbolicLink(at) || PASSED_OVER.contains(String.valueOf(at.getFileName())))
                outermost = at;
        return outermost;
    }

    /** All directories of tables, of whatever keyspace, also of tables that no longer exist. */
    public static List<Path> tableDirectories(List<Path> dataDirectories) throws IOException {
        List<Path> tables = new ArrayList<>();
        for (Path data : dataDirectories)
            for (Path keyspace : subdirectories(data)) tables.addAll(subdirectories(keyspace));
        return tables;
    }

    private static List<Path> subdirectories(Path directory) throws IOException {
        List<Path> found = new ArrayList<>();
        if (!Files.isDirectory(directory)) return found;
        try (DirectoryStream<Path> entries =
                Files.newDirectoryStream(directory, entry -> Files.isDirectory(entry))) {
            entries.forEach(found::add);
        }
        return found;
    }

    private static StartupException wrongConfig(String message) {
        return new StartupException(StartupException.ERR_WRONG_CONFIG, message);
    }
}
