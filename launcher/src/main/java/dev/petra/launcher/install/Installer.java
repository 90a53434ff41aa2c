// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * Plans what puts Petra into an installed Cassandra or takes it out. Neither plan changes anything
 * by itself, and what this does not know it refuses. Not for several threads.
 */
public final class Installer {
    private static final Pattern SIZE = Pattern.compile("[1-9][0-9]{0,9}(B|KiB|MiB|GiB)");

    private final Path cassandra;
    private final Optional<Path> conf;
    private final Predicate<Change> allowed;

    /**
     * For one installation.
     *
     * @param cassandra its folder: of the tarball, or {@code /usr/share/cassandra}
     * @param conf of its configuration; otherwise that which its start script names
     */
    public Installer(Path cassandra, Optional<Path> conf) {
        this(cassandra, conf, Change::isAllowed);
    }

    /** For tests: root may do everything. */
    Installer(Path cassandra, Optional<Path> conf, Predicate<Change> allowed) {
        this.cassandra = cassandra;
        this.conf = conf;
        this.allowed = allowed;
    }

    /**
     * Plans the installation. Empty if it is complete.
     *
     * @param plugin the jar to install
     * @param memory of the engine, in B, KiB, MiB or GiB; otherwise the engine chooses
     * @param replace puts the jar in the place of another version
     * @throws InstallException if it cannot be installed there
     */
    public Plan install(Path plugin, Optional<String> memory, boolean replace) {
        memory.filter(size -> !SIZE.matcher(size).matches())
                .ifPresent(
                        size -> {
                            throw new InstallException(
                                    "'" + size + "' is no size: write it like 512MiB or 4GiB");
                        });
        Jar own = Jar.read(plugin);
        if (own.kind() != Jar.Kind.PLUGIN)
            throw new InstallException(plugin + " is not Petra's plugin jar");
        Layout layout = layout(replace);
        Jar release = layout.cassandra();
        checkRelease(release, Jar.knownReleases(plugin));
        NodeJava.check(layout, System.getenv());
        Path jar = layout.plugin();
        checkPlugins(layout, own, jar, replace);
        checkNoAgentByHand(layout);
        checkConfiguration(layout);

        List<Change> changes = new ArrayList<>();
        if (!isSame(plugin, jar))
            changes.add(
                    new Change.Copy(
                            plugin,
                            jar,
                            // Whoever may read the one may read the other.
                            Files.exists(jar) ? jar : release.path(),
                            (Files.exists(jar) ? "replace " : "add ")
                                    + jar
                                    + " by a copy of "
                                    + plugin
                                    + " (Petra "
                                    + own.version()
                                    + ")\n"));
        TextFile yaml = TextFile.read(layout.yaml());
        edit(changes, yaml, MemtableYaml.install(yaml, memory));
        TextFile options = TextFile.read(layout.options());
        edit(changes, options, AgentLine.install(options, jar));
        return plan(changes, List.of());
    }

    /**
     * Plans the removal. Empty if nothing is installed.
     *
     * @param storesStay whether tables of the engine may be left behind, which nothing can read
     *     then
     * @throws InstallException if it would leave tables behind, or cannot be removed
     */
    public Plan uninstall(boolean storesStay) {
        Layout layout = layout(true);
        Path jar = layout.plugin();
        checkNoAgentByHand(layout);
        checkConfiguration(layout);
        List<Change> changes = new ArrayList<>();
        TextFile options = TextFile.read(layout.options());
        edit(changes, options, AgentLine.uninstall(options));
        TextFile yaml = TextFile.read(layout.yaml());
        edit(changes, yaml, MemtableYaml.uninstall(yaml));
        if (Files.exists(jar)) changes.add(new Change.Delete(jar));
        if (changes.isEmpty()) return new Plan(changes, List.of());
        if (changes.size() == 1 && Files.exists(jar) && conf.isEmpty())
            throw new InstallException(
                    jar
                            + " is there, and neither "
                            + layout.yaml()
                            + " nor "
                            + layout.options()
                            + " has Petra's lines: the node may read its configuration from another"
                            + " folder, such as that of CASSANDRA_CONF. Name the folder with"
                            + " --conf");

        for (Jar each : layout.jars())
            if (each.woven())
                throw new InstallException(
                        each.path()
                                + " was woven, and does not start without Petra: put Cassandra's"
                                + " original jar in its place first");
        // The node may have been started by another path than the one that is named now.
        Set<String> lines = new HashSet<>(AgentLine.installed(options));
        lines.add(AgentLine.OPTION + jar);
        OptionalLong running = RunningNodes.find(lines, jar);
        if (running.isPresent())
            throw new InstallException(
                    "a node runs with "
                            + jar
                            + " (pid "
                            + running.getAsLong()
                            + ") and may create tables in it: stop it first");
        if (storesStay) return plan(changes, List.of());
        StoreSearch search = searchStores(layout);
        // First: what is left after a crash is a node with Petra, which puts back those it needs.
        changes.addAll(0, search.idleGuards().stream().map(Change.Delete::new).toList());
        return plan(changes, notes(search));
    }

    private Layout layout(boolean anyJar) {
        // One that will be replaced or deleted may be damaged.
        Path jar = cassandra.toAbsolutePath().normalize().resolve("lib").resolve(Layout.PLUGIN);
        return Layout.find(cassandra, conf, anyJar ? Optional.of(jar) : Optional.empty());
    }

    private static void checkRelease(Jar release, Set<String> known) {
        if (release.woven())
            throw new InstallException(
                    release.path()
                            + " was woven: such a node needs no agent. Put the plugin jar of the"
                            + " same version into lib, or put Cassandra's original jar back");
        if (!known.contains(release.version()))
            throw new InstallException(
                    release.path()
                            + " is Cassandra "
                            + release.version()
                            + ", and this version of Petra knows "
                            + String.join(", ", known)
                            + " (docs/compatibility.md): install a version of Petra that knows it");
    }

    private static void checkPlugins(Layout layout, Jar own, Path jar, boolean replace) {
        for (Jar each : layout.plugins()) {
            if (!each.path().equals(jar))
                throw new InstallException(
                        each.path()
                                + " is Petra "
                                + each.version()
                                + " and was not put there by petra install: remove it");
            if (!isSame(own.path(), jar) && !replace)
                throw new InstallException(
                        jar
                                + " is Petra "
                                + each.version()
                                + ", and not the same file as this one of Petra "
                                + own.version()
                                + ": --replace puts this one in its place");
        }
    }

    private static void checkNoAgentByHand(Layout layout) {
        List<String> found = AgentLine.writtenByHand(layout);
        if (!found.isEmpty())
            throw new InstallException(
                    "there is a line for Petra's agent that petra install has not written: remove"
                            + " it. "
                            + String.join("; ", found));
    }

    /** The file that is edited must be the one that the node reads. */
    private static void checkConfiguration(Layout layout) {
        Pattern other = Pattern.compile("-Dcassandra\\.config=(\\S+)");
        for (Path file : layout.optionFiles())
            TextFile.read(file)
                    .text()
                    .lines()
                    .map(String::strip)
                    .filter(line -> !line.startsWith("#") && other.matcher(line).find())
                    .findFirst()
                    .ifPresent(
                            line -> {
                                throw new InstallException(
                                        file
                                                + " has "
                                                + line
                                                + ", so the node may not read "
                                                + layout.yaml()
                                                + ": change the files by hand"
                                                + " (docs/install.md)");
                            });
    }

    private static StoreSearch searchStores(Layout layout) {
        StoreSearch search = StoreSearch.of(layout);
        if (!search.tables().isEmpty())
            throw new InstallException(
                    "there are tables in Petra that could not be read any more: "
                            + String.join(", ", search.tables())
                            + ". Start the node and migrate each by ALTER TABLE … WITH memtable ="
                            + " 'default', or drop it; or add --stores-stay");
        if (!search.markers().isEmpty())
            throw new InstallException(
                    "of tables in Petra no data was found, and these files say that it is in"
                            + " another data directory: "
                            + String.join(
                                    ", ", search.markers().stream().map(Path::toString).toList())
                            + ". If a disk is missing, mount it, or put its directory back into"
                            + " data_file_directories. Then start the node and migrate each table"
                            + " by ALTER TABLE … WITH memtable = 'default', or drop it, which"
                            + " deletes the file. Delete it yourself if the data is lost, or if an"
                            + " older version of Petra, or a disk that was away, left it of a table"
                            + " that Petra has no more; or add --stores-stay");
        return search;
    }

    private static List<String> notes(StoreSearch search) {
        List<String> notes = new ArrayList<>();
        if (search.snapshots() > 0)
            notes.add(
                    search.snapshots()
                            + " snapshots of tables in Petra stay on disk. Only Petra reads"
                            + " them; nodetool clearsnapshot deletes them.");
        for (Path shadow : search.shadows())
            notes.add(
                    shadow
                            + " stays on disk. It is the shadow of a table, which needs it no more:"
                            + " delete it.");
        return notes;
    }

    private static void edit(List<Change> changes, TextFile before, String after) {
        if (!before.text().equals(after)) changes.add(new Change.Edit(before, after));
    }

    private Plan plan(List<Change> changes, List<String> notes) {
        Plan plan = new Plan(changes, notes);
        plan.checkAllowed(allowed);
        return plan;
    }

    private static boolean isSame(Path plugin, Path jar) {
        try {
            return Files.exists(jar) && Files.mismatch(plugin, jar) < 0;
        } catch (IOException e) {
            throw new InstallException("cannot read " + jar + ": " + e, e);
        }
    }
}
