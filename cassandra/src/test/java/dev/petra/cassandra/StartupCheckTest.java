// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.disk.StoreGuard;
import dev.petra.cassandra.hooks.NodeHooks;
import dev.petra.cassandra.host.Host;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TextChecksum;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.cassandra.config.InheritingClass;
import org.apache.cassandra.config.YamlConfigurationLoader;
import org.apache.cassandra.exceptions.StartupException;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.util.File;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class StartupCheckTest {
    @TempDir Path data;

    @Test
    void aKnownReleaseStarts() {
        assertThatCode(() -> StartupCheck.checkRelease("5.0.9", "5.0.9", List.of(), false))
                .doesNotThrowAnyException();
    }

    @Test
    void anUnknownReleaseStartsIfWhatPetraChangesIsAsInAKnownOne() {
        assertThatCode(() -> StartupCheck.checkRelease("5.0.10", "5.0.9", List.of(), false))
                .doesNotThrowAnyException();
    }

    @Test
    void changedMethodsAreRefusedByNameWithTheSettingThatLetsTheNodeStart() {
        Map<String, String> whatIsSaid =
                Map.of(
                        "5.0.10",
                        " is none of the releases that Petra knows, [5.0.6, 5.0.7, 5.0.8, 5.0.9]"
                                + " (docs/compatibility.md). Of the methods that Petra changes,"
                                + " these are not as in 5.0.9, which is most like it: ",
                        "5.0.9",
                        " is not the 5.0.9 that Petra knows (docs/compatibility.md). Of the methods"
                                + " that Petra changes, these are not as in that: ",
                        // A jar of several.
                        "5.0.8",
                        " is not the 5.0.8 that Petra knows (docs/compatibility.md). Of the methods"
                                + " that Petra changes, these are not as in 5.0.9, which is most"
                                + " like it: ");
        for (Map.Entry<String, String> each : whatIsSaid.entrySet())
            assertThatThrownBy(
                            () ->
                                    StartupCheck.checkRelease(
                                            each.getKey(),
                                            "5.0.9",
                                            List.of("A.a()", "B.b(int)"),
                                            false))
                    .isInstanceOfSatisfying(
                            StartupException.class,
                            e ->
                                    assertThat(e.returnCode)
                                            .isEqualTo(StartupException.ERR_WRONG_CONFIG))
                    .hasMessageStartingWith(
                            "Cassandra " + each.getKey() + each.getValue() + "A.a(); B.b(int). ")
                    .hasMessageContaining("-Dpetra.allow_unknown_cassandra=true");
    }

    @Test
    void aCassandraWithoutAHostIsRefusedByName() {
        IllegalStateException none = new IllegalStateException("no host for this Cassandra");
        for (Throwable failure :
                List.of(
                        none,
                        new ExceptionInInitializerError(none),
                        new NoClassDefFoundError("no host for this Cassandra")))
            assertThatThrownBy(
                            () ->
                                    StartupCheck.checkHost(
                                            () -> {
                                                if (failure instanceof Error e) throw e;
                                                throw none;
                                            }))
                    .isInstanceOf(StartupException.class)
                    .hasMessageContaining("Petra does not fit this Cassandra")
                    .hasMessageContaining("no host for this Cassandra. Install");
        assertThatCode(() -> StartupCheck.checkHost(Host::current)).doesNotThrowAnyException();
    }

    @Test
    void changedMethodsStartWithThatSettingOrIfTheJarWasWovenSo() {
        List<String> changed = List.of("A.a()");
        assertThatCode(() -> StartupCheck.checkRelease("6.1", "5.0.9", changed, true))
                .doesNotThrowAnyException();
        System.setProperty(StartupCheck.ALLOW_UNKNOWN, "true");
        try {
            assertThatCode(() -> StartupCheck.checkRelease("6.1", "5.0.9", changed, false))
                    .doesNotThrowAnyException();
        } finally {
            System.clearProperty(StartupCheck.ALLOW_UNKNOWN);
        }
    }

    @Test
    void theClassOfAConfigurationMayBeInherited() {
        Map<String, InheritingClass> all =
                Map.of(
                        "a", new InheritingClass(null, "A", Map.of()),
                        "b", new InheritingClass("a", null, Map.of()),
                        "c", new InheritingClass("b", null, Map.of()),
                        "loop", new InheritingClass("loop", null, Map.of()),
                        "lost", new InheritingClass("nowhere", null, Map.of()));
        assertThat(StartupCheck.className(all, "a")).isEqualTo("A");
        assertThat(StartupCheck.className(all, "c")).isEqualTo("A");
        assertThat(StartupCheck.className(all, "loop")).isNull();
        assertThat(StartupCheck.className(all, "lost")).isNull();
    }

    @Test
    void storesThatNothingWouldReadAreRefusedWithTheStanza() throws IOException {
        Path store = Files.createDirectories(data.resolve("ks/t-1/rocksdb/3")).getParent();
        Files.writeString(store.resolve("LIVE"), "3\n");
        assertThatThrownBy(() -> StartupCheck.checkNoStores(List.of(data)))
                .isInstanceOf(StartupException.class)
                .hasMessageContaining(store.toString())
                .hasMessageContaining("class_name: " + PetraMemtable.class.getName());
    }

    @Test
    void storesOfANewerFormatAreRefusedAndThoseOfKnownFormatsAreNot() throws IOException {
        Path store = Files.createDirectories(data.resolve("ks/t-1/rocksdb/3"));
        List<StorageEngine> engines =
                List.of(StorageEngines.open("rocks", new EngineSettings(Map.of())));
        try {
            for (String known : List.of("1", "2", "3")) {
                Files.writeString(store.resolve("PETRA"), "format=" + known + "\n");
                assertThatCode(() -> StartupCheck.checkFormats(List.of(data), engines))
                        .doesNotThrowAnyException();
            }
            Files.writeString(store.resolve("PETRA"), "format=4\n");
            assertThatThrownBy(() -> StartupCheck.checkFormats(List.of(data), engines))
                    .isInstanceOf(StartupException.class)
                    .hasMessageContaining(store.toString())
                    .hasMessageContaining("format 4")
                    .hasMessageContaining("Use the version that wrote it");
        } finally {
            engines.get(0).close();
        }
    }

    /** One damaged file of one table kept the node from starting. */
    @Test
    void aDamagedDescriptorIsLeftToTheOpeningOfItsTable() throws IOException {
        Path store = Files.createDirectories(data.resolve("ks/t-1/rocksdb/3"));
        List<StorageEngine> engines =
                List.of(StorageEngines.open("rocks", new EngineSettings(Map.of())));
        try {
            for (String damaged :
                    List.of("", "form", "format=", "format=\u0001\n", "format=2x\n", "format=\\u2"))
                leftToItsTable(store, damaged.getBytes(UTF_8), engines);
            leftToItsTable(store, new byte[] {'f', (byte) 0xff, '=', (byte) 0xc3}, engines);
            String changed = TextChecksum.append("format=2\n").replace("format=2", "format=4");
            leftToItsTable(store, changed.getBytes(UTF_8), engines);
            Files.writeString(store.resolve("PETRA"), TextChecksum.append("format=4\n"));
            assertThatThrownBy(() -> StartupCheck.checkFormats(List.of(data), engines))
                    .hasMessageContaining("format 4");
            Files.writeString(store.resolve("PETRA"), "format=12345678901\n");
            assertThatThrownBy(() -> StartupCheck.checkFormats(List.of(data), engines))
                    .hasMessageContaining("format 12345678901");
        } finally {
            engines.get(0).close();
        }
    }

    private void leftToItsTable(Path store, byte[] descriptor, List<StorageEngine> engines)
            throws IOException {
        Files.write(store.resolve("PETRA"), descriptor);
        assertThatCode(() -> StartupCheck.checkFormats(List.of(data), engines))
                .as(new String(descriptor, UTF_8))
                .doesNotThrowAnyException();
    }

    @Test
    void storesThatHoldDataGetAGuardThatOnlyStockCassandraRefuses() throws Exception {
        Path store = Files.createDirectories(data.resolve("ks/t-1/rocksdb/3")).getParent();
        Files.writeString(store.resolve("LIVE"), "damaged");
        Path empty = Files.createDirectories(data.resolve("ks/t-2/rocksdb"));
        Files.createFile(empty.resolve(StoreGuard.NAME));
        Path kept = Files.createDirectories(data.resolve("ks/t-3/rocksdb"));
        Files.createFile(kept.resolve("KEEP"));
        Path moving = Files.createDirectories(data.resolve("ks/t-4/rocksdb"));
        Files.createFile(moving.resolve("MOVING"));
        Files.createFile(moving.resolve(StoreGuard.NAME));
        Files.createDirectories(data.resolve("ks/t-5"));
        Path lost = Files.createDirectories(data.resolve("ks/t-6/rocksdb"));
        Files.writeString(lost.resolve("LIVE"), "2\n");
        Files.writeString(lost.resolve("CREATED"), "2\n");
        Path truncated = Files.createDirectories(data.resolve("ks/t-7/rocksdb"));
        Files.writeString(truncated.resolve("LIVE"), "3\n");
        Files.writeString(truncated.resolve("CREATED"), "2\n");
        Files.createFile(truncated.resolve(StoreGuard.NAME));
        Path unreadable = Files.createDirectories(data.resolve("ks/t-8/rocksdb"));
        Files.createSymbolicLink(unreadable.resolve("CREATED"), unreadable.resolve("CREATED"));
        StartupCheck.guardStores(List.of(data));
        StartupCheck.guardStores(List.of(data));
        Path guard = store.resolve(StoreGuard.NAME);
        assertThat(guard).content().contains("petra install");
        assertThat(empty.resolve(StoreGuard.NAME)).as("nothing to guard").doesNotExist();
        assertThat(kept.resolve(StoreGuard.NAME)).exists();
        assertThat(moving.resolve(StoreGuard.NAME)).as("a full disk left it").isNotEmptyFile();
        assertThat(data.resolve("ks/t-5")).isEmptyDirectory();
        assertThat(lost.resolve(StoreGuard.NAME)).as("its generation is missing").exists();
        assertThat(truncated.resolve(StoreGuard.NAME)).doesNotExist();
        assertThat(unreadable.resolve(StoreGuard.NAME)).as("nobody can tell").exists();

        File file = new File(guard);
        assertThat(Descriptor.isValidFile(file)).as("stock looks at it").isTrue();
        assertThatThrownBy(() -> Descriptor.fromFileWithComponent(file, false))
                .as("stock refuses it")
                .isInstanceOf(IllegalArgumentException.class);
        assertThat(NodeHooks.isCheckedAsSSTable(file, true)).isFalse();
        File sstable = new File(data.resolve("ks/t-1/nb-1-big-Data.db"));
        assertThat(NodeHooks.isCheckedAsSSTable(sstable, true)).isTrue();
        assertThat(NodeHooks.isCheckedAsSSTable(sstable, false)).isFalse();
    }

    /** A disk of its own for a table or a keyspace, or for all of them. */
    @ParameterizedTest
    @ValueSource(strings = {"", "ks", "ks/t-1", "ks/t-1/rocksdb", "snapshots", "backups", "seen"})
    void guardsThatStockDoesNotSeeAreTold(String hiding) throws Exception {
        boolean isName = hiding.equals("snapshots") || hiding.equals("backups");
        Path root = data.resolve("data");
        Path store = root.resolve(isName ? hiding : "ks").resolve("t-1/rocksdb");
        Files.createDirectories(store.resolve("3"));
        Files.createDirectories(root.resolve("ks/t-2"));
        boolean isLink = !isName && !hiding.equals("seen");
        Path folder = hiding.isEmpty() ? root : root.resolve(hiding);
        if (isLink) {
            Path elsewhere = data.resolve("elsewhere");
            Files.move(folder, elsewhere);
            Files.createSymbolicLink(folder, elsewhere);
        }
        StartupCheck.guardStores(List.of(root));
        assertThat(store.resolve(StoreGuard.NAME)).exists();
        try (Stream<Path> walked = Files.walk(root)) {
            assertThat(walked.anyMatch(file -> file.endsWith(StoreGuard.NAME)))
                    .as("by whoever follows no links")
                    .isEqualTo(!isLink);
        }
        assertThat(StartupCheck.hidingGuards(List.of(root)))
                .isEqualTo(isLink || isName ? Set.of(folder) : Set.of());
    }

    @Test
    void deadGenerationsSnapshotsAndOtherFilesDoNotMatter() throws IOException {
        Path store = Files.createDirectories(data.resolve("ks/t-1/rocksdb/3")).getParent();
        Files.writeString(store.resolve("LIVE"), "4\n");
        Files.createDirectories(data.resolve("ks/t-1/snapshots/s/rocksdb/3"));
        Files.createDirectories(data.resolve("ks/t-2"));
        Files.createFile(data.resolve("ks/file"));
        assertThatCode(() -> StartupCheck.checkNoStores(List.of(data, data.resolve("missing"))))
                .doesNotThrowAnyException();
    }

    /** Whoever adds a configuration is told not to write a second section. */
    @Test
    void ofTwoSectionsOfMemtablesCassandraReadsTheLast() throws IOException {
        String section = "memtable:\n  configurations:\n    %s: {class_name: SkipListMemtable}\n";
        Path yaml =
                Files.writeString(
                        data.resolve("cassandra.yaml"),
                        section.formatted("first") + section.formatted("second"));
        assertThat(
                        new YamlConfigurationLoader()
                                .loadConfig(yaml.toUri().toURL())
                                .memtable
                                .configurations)
                .containsOnlyKeys("second");
    }
}
