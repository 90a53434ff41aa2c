// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.FileTree;
import dev.petra.launcher.install.FakeCassandra.Kind;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SortedMap;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

final class InstallerTest {
    private static final String BLOCK =
            """
                # BEGIN petra
                rocks:
                  class_name: dev.petra.cassandra.PetraMemtable
                  parameters:
                    engine: rocks
                # END petra
            """;

    @TempDir private Path directory;
    private Path plugin = Path.of("");

    @BeforeEach
    void makePlugin() throws IOException {
        plugin = FakeCassandra.plugin(directory.resolve("petra.jar"), "0.2.0");
    }

    private FakeCassandra make(Kind kind) throws IOException {
        return FakeCassandra.make(kind, directory.resolve("root"));
    }

    @ParameterizedTest
    @EnumSource
    void uninstallGivesBackWhatInstallFound(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        SortedMap<String, String> before = cassandra.everything();

        cassandra.install(plugin).apply();

        assertThat(cassandra.jar()).hasSameBinaryContentAs(plugin);
        assertThat(cassandra.read("jvm-server.options"))
                .isEqualTo(
                        FakeCassandra.OPTIONS
                                + "# BEGIN petra\n-javaagent:"
                                + cassandra.jar()
                                + "\n# END petra\n");
        assertThat(cassandra.read("cassandra.yaml"))
                .contains("    # the oldest\n" + BLOCK + "    skiplist:\n");
        SortedMap<String, String> installed = cassandra.everything();
        assertThat(installed).hasSize(before.size() + 1);
        assertThat(installed.get(cassandra.root().relativize(cassandra.conf()) + "/cassandra.yaml"))
                .startsWith("rw-rw----");

        assertThat(cassandra.install(plugin).isEmpty()).isTrue();
        assertThat(cassandra.everything()).isEqualTo(installed);

        cassandra.uninstall().apply();

        assertThat(cassandra.everything()).isEqualTo(before);
        assertThat(cassandra.uninstall().isEmpty()).isTrue();
    }

    /** Cassandra 5.0 runs on Java 11, too: the agent does not, and the node would not start. */
    @ParameterizedTest
    @EnumSource
    void aNodeThatWouldRunOnAnotherJavaIsRefused(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        boolean tarball = kind == Kind.TARBALL;
        Path file = tarball ? cassandra.home().resolve("bin/cassandra.in.sh") : cassandra.service();
        Path jdk = Files.createDirectories(directory.resolve("jdk/bin")).getParent();
        Path java = Files.writeString(jdk.resolve("bin/java"), "");
        String before = tarball ? Files.readString(file) : "";
        Files.writeString(file, before + "JAVA_HOME=" + jdk + "\n");
        assertThatThrownBy(() -> cassandra.install(plugin))
                .isInstanceOf(InstallException.class)
                .hasMessageContaining(
                        "would run on Java which is none (" + java + ", by " + file + ")");
        for (String version : List.of("11.0.2", "17.0.9")) {
            Files.writeString(
                    java, "#!/bin/sh\necho 'openjdk version \"" + version + "\" LTS' >&2\n");
            assertThat(java.toFile().setExecutable(true)).isTrue();
            if (version.startsWith("17")) assertThat(cassandra.install(plugin).isEmpty()).isFalse();
            else
                assertThatThrownBy(() -> cassandra.install(plugin))
                        .hasMessageContaining(
                                "would run on Java 11 (" + java + ", by " + file + ")")
                        .hasMessageContaining("needs Java 17: install a JDK 17, and set JAVA_HOME")
                        .hasMessageContaining("to it in " + file);
        }
        if (!tarball) {
            // The script is read behind the settings of the service.
            Path script = cassandra.home().resolve("cassandra.in.sh");
            Files.writeString(
                    script, Files.readString(script) + "\nJAVA_HOME=" + jdk("11.0.2") + "\n");
            assertThatThrownBy(() -> cassandra.install(plugin))
                    .hasMessageContaining("/bin/java, by " + script + ")")
                    .hasMessageContaining("to it in " + script);
            return;
        }
        // Only a shell could tell: that of the environment, which runs this test.
        Files.writeString(file, before + "JAVA_HOME=$(which-java)\n");
        assertThat(cassandra.install(plugin).isEmpty()).isFalse();
    }

    /** By sudo env JAVA_HOME=… petra install, which the service of a package knows nothing of. */
    @ParameterizedTest
    @EnumSource
    void javaHomeOfTheCommandIsNotThatOfAService(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        Files.deleteIfExists(cassandra.service());
        Layout layout = Layout.find(cassandra.home(), Optional.empty(), Optional.empty());
        Path old = jdk("11.0.2");
        Path needed = jdk("17.0.9");
        boolean tarball = kind == Kind.TARBALL;
        Path javaHome = tarball ? needed : old;
        Path onPath = tarball ? old : needed;
        NodeJava.check(
                layout,
                Map.of("JAVA_HOME", javaHome.toString(), "PATH", "/none:" + onPath + "/bin:/bin"));
        assertThatThrownBy(
                        () ->
                                NodeJava.check(
                                        layout,
                                        Map.of(
                                                "JAVA_HOME",
                                                onPath.toString(),
                                                "PATH",
                                                "/none:" + javaHome + "/bin:/bin")))
                .isInstanceOf(InstallException.class)
                .hasMessageContaining(
                        "would run on Java 11 ("
                                + old
                                + "/bin/java, by "
                                + (tarball ? "JAVA_HOME of the environment)" : "PATH)"));
    }

    /** A folder with a java that says that version. */
    private Path jdk(String version) throws IOException {
        Path home = directory.resolve("jdk-" + version);
        Path java = Files.createDirectories(home.resolve("bin")).resolve("java");
        Files.writeString(java, "#!/bin/sh\necho 'openjdk version \"" + version + "\" LTS' >&2\n");
        assertThat(java.toFile().setExecutable(true)).isTrue();
        return home;
    }

    @Test
    void aPlanChangesNothingAndSaysAll() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        SortedMap<String, String> before = cassandra.everything();
        String yaml = cassandra.conf().resolve("cassandra.yaml").toString();
        String options = cassandra.conf().resolve("jvm-server.options").toString();

        String text = cassandra.installer().install(plugin, Optional.of("2GiB"), false).text();

        assertThat(text)
                .isEqualTo(
                        "add "
                                + cassandra.jar()
                                + " by a copy of "
                                + plugin
                                + " (Petra 0.2.0)\n"
                                + ("--- " + yaml + "\n+++ " + yaml)
                                + """

                                @@ -6,6 +6,13 @@
                                 memtable:
                                   configurations:
                                     # the oldest
                                +    # BEGIN petra
                                +    rocks:
                                +      class_name: dev.petra.cassandra.PetraMemtable
                                +      parameters:
                                +        engine: rocks
                                +        memory: 2GiB
                                +    # END petra
                                     skiplist:
                                       class_name: SkipListMemtable
                                     trie:
                                """
                                + ("--- " + options + "\n+++ " + options)
                                + """

                                @@ -2,3 +2,6 @@
                                 #-javaagent:/opt/petra-old.jar
                                 -ea
                                 -Xss256k
                                +# BEGIN petra
                                +-javaagent:%s
                                +# END petra
                                """
                                        .formatted(cassandra.jar()));
        assertThat(cassandra.everything()).isEqualTo(before);
    }

    /** They went to the terminal, and into logs of it, with the lines beside a change. */
    @Test
    void aPlanShowsNoPassword() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write(
                "jvm-server.options",
                "-Djavax.net.ssl.keyStorePassword=hidden1\n-Dx.PASSWORD : hidden2 3\n-Dlast=shown");
        cassandra.write(
                "cassandra.yaml",
                FakeCassandra.YAML.replace(
                        "    # the oldest\n", "    # keystore_password: 'hidden4'\n"));
        Plan plan = cassandra.install(plugin);
        assertThat(plan.text())
                .contains("\n -Djavax.net.ssl.keyStorePassword=*******\n")
                .contains("\n -Dx.PASSWORD : *******\n")
                .contains("-Dlast=shown\n")
                .contains("\n     # keystore_password: *******\n")
                .doesNotContain("hidden");
        plan.apply();
        assertThat(cassandra.read("jvm-server.options"))
                .startsWith("-Djavax.net.ssl.keyStorePassword=hidden1\n");
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void whatACrashLeftIsDoneByTheNextRun(int done) throws IOException {
        FakeCassandra cassandra = make(Kind.DEBIAN);
        SortedMap<String, String> before = cassandra.everything();
        cassandra.install(plugin).apply();
        SortedMap<String, String> installed = cassandra.everything();

        crash(cassandra.uninstall(), done);
        assertThat(cassandra.everything()).isNotIn(before);
        // The lines may be in another folder.
        if (done == 2) refuses(cassandra, cassandra::uninstall, "CASSANDRA_CONF", "--conf");
        Installer named = new Installer(cassandra.home(), Optional.of(cassandra.conf()));
        named.uninstall(false).apply();
        assertThat(cassandra.everything()).isEqualTo(before);

        crash(cassandra.install(plugin), done);
        assertThat(cassandra.everything()).isNotIn(installed);
        assertThat(cassandra.install(plugin).changes()).hasSize(3 - done);
        cassandra.install(plugin).apply();
        assertThat(cassandra.everything()).isEqualTo(installed);

        cassandra.uninstall().apply();
        crash(cassandra.install(plugin), done);
        if (done > 0) named.uninstall(false).apply();
        assertThat(cassandra.everything()).isEqualTo(before);
    }

    private static void crash(Plan plan, int done) {
        int all = plan.changes().size();
        assertThatThrownBy(
                        () ->
                                plan.apply(
                                        change -> {
                                            if (plan.changes().indexOf(change) == done)
                                                throw new IllegalStateException("crash");
                                        }))
                .hasMessage("crash");
        assertThat(all).isEqualTo(3);
    }

    /** First what does nothing alone, last what makes the node need the rest. */
    @Test
    void theOrderIsJarSettingsOptionsAndBack() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Plan install = cassandra.install(plugin);
        assertThat(install.changes().stream().map(c -> c.file().getFileName().toString()))
                .containsExactly("petra-cassandra-5.0.jar", "cassandra.yaml", "jvm-server.options");
        install.apply();
        assertThat(
                        cassandra.uninstall().changes().stream()
                                .map(c -> c.file().getFileName().toString()))
                .containsExactly("jvm-server.options", "cassandra.yaml", "petra-cassandra-5.0.jar");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "a: 1",
                "a: 1\n",
                "a: 1\n# end",
                "\n# x\n\na: 1\n\n\n",
                "a: 1\r\nb: 2\r\n",
                "a: 1\r\nb: 2",
                "memtable:\n    configurations:\n        trie:\n            class_name: T\n",
                "memtable: # here\n  configurations: # and here\n   # or\n\n   x: {class_name: T}",
                "memtable:\r\n  configurations:\r\n    x:\r\n      class_name: T\r\nb: 2",
                "memtable:\n  x: 1\n  configurations:\n    'x': {class_name: T}\n"
            })
    void aYamlOfAnyFormComesBack(String yaml) throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write("cassandra.yaml", yaml);
        cassandra.write("jvm-server.options", "-ea");
        SortedMap<String, String> before = cassandra.everything();

        cassandra.install(plugin).apply();
        assertThat(cassandra.read("cassandra.yaml")).contains("rocks:").contains("# END petra");
        if (yaml.contains("\r\n"))
            assertThat(cassandra.read("cassandra.yaml").replace("\r\n", "")).doesNotContain("\n");
        cassandra.uninstall().apply();

        assertThat(cassandra.everything()).isEqualTo(before);
    }

    @Test
    void bytesThatAreNoUtf8StayInTheOptions() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Path options = cassandra.conf().resolve("jvm-server.options");
        Files.write(options, "# \u00e4\n-ea\n".getBytes(StandardCharsets.ISO_8859_1));
        byte[] before = Files.readAllBytes(options);

        cassandra.install(plugin).apply();
        assertThat(Files.readAllBytes(options))
                .startsWith(before)
                .hasSizeGreaterThan(before.length);
        cassandra.uninstall().apply();

        assertThat(Files.readAllBytes(options)).isEqualTo(before);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "memtable:\n",
                "memtable: {configurations: {x: {class_name: T}}}\n",
                "memtable:\n  configurations: {x: {class_name: T}}\n",
                "memtable:\n  configurations:\n",
                "memtable:\n  x: 1\n",
                "memtable:\r  configurations:\r    x:\r      class_name: T\r",
                "a: 1\n...\n",
                "a: 1\n---\nb: 2\n",
                "{a: 1}\n",
                "  a: 1\n",
                "a: 1\na: 2\n",
                "a: [1\n",
                "",
                "# nothing\n",
                "- a\n"
            })
    void aYamlThatCannotBeEditedSafelyIsRefusedWithTheLinesToAdd(String yaml) throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write("cassandra.yaml", yaml);
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "cassandra.yaml cannot be edited safely: ",
                "\n    rocks:\n      class_name: dev.petra.cassandra.PetraMemtable\n");
    }

    @ParameterizedTest
    @ValueSource(strings = {"rocks:\n      class_name: X", "mine:\n      class_name: %s"})
    void aConfigurationWrittenByHandIsRefused(String configuration) throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write(
                "cassandra.yaml",
                "memtable:\n  configurations:\n    "
                        + configuration.formatted("dev.petra.cassandra.PetraMemtable")
                        + "\n");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "cassandra.yaml has the memtable configuration '"
                        + configuration.substring(0, configuration.indexOf(':')),
                "written by hand");
    }

    @Test
    void whatWasWrittenByHandBetweenMarkersIsTaken() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write("cassandra.yaml", "memtable:\n  configurations:\n" + BLOCK);
        assertThat(cassandra.install(plugin).changes()).hasSize(2);
    }

    @Test
    void settingsThatAnOperatorChangedStayAndGoWithTheBlock() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        SortedMap<String, String> before = cassandra.everything();
        cassandra.install(plugin).apply();
        String yaml = cassandra.read("cassandra.yaml");
        cassandra.write(
                "cassandra.yaml",
                yaml.replace("engine: rocks\n", "engine: rocks\n        memory: 3GiB\n"));

        assertThat(cassandra.install(plugin).isEmpty()).isTrue();
        assertThat(cassandra.installer().install(plugin, Optional.of("3GiB"), false).isEmpty())
                .isTrue();
        refuses(
                cassandra,
                () -> cassandra.installer().install(plugin, Optional.of("4GiB"), false),
                "has memory: 3GiB for 'rocks': change it there");
        cassandra.uninstall().apply();
        assertThat(cassandra.everything()).isEqualTo(before);
    }

    @Test
    void aMemoryThatIsNoSizeIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        for (String size : new String[] {"", "2", "0GiB", "2G", "2 GiB", "2GiB\nx: 1"})
            refuses(
                    cassandra,
                    () -> cassandra.installer().install(plugin, Optional.of(size), false),
                    "'" + size + "' is no size");
    }

    @Test
    void anUnknownReleaseIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.cassandra(cassandra.home().resolve("lib/apache-cassandra-5.0.9.jar"), "5.0.5");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "apache-cassandra-5.0.9.jar is Cassandra 5.0.5, and this version of Petra knows"
                        + " 5.0.6, 5.0.7, 5.0.9");
    }

    /** As docs/install.md says: without the agent's line, with the original jar back. */
    @ParameterizedTest
    @EnumSource
    void uninstallRemovesTheWovenFormOnceTheOriginalIsBack(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        SortedMap<String, String> before = cassandra.everything();
        Path original =
                (kind == Kind.TARBALL ? cassandra.home().resolve("lib") : cassandra.home())
                        .resolve("apache-cassandra-5.0.9.jar");
        byte[] bytes = Files.readAllBytes(original);
        Files.copy(plugin, cassandra.jar());
        cassandra.write(
                "cassandra.yaml",
                cassandra
                        .read("cassandra.yaml")
                        .replace("    # the oldest\n", "    # the oldest\n" + BLOCK));
        FakeCassandra.zip(
                original,
                Map.of(
                        "org/apache/cassandra/service/CassandraDaemon.class",
                        "",
                        "META-INF/petra/woven",
                        "x"));
        refuses(cassandra, cassandra::uninstall, "was woven, and does not start without Petra");

        Files.write(original, bytes);
        Path store = Files.createDirectories(cassandra.data().resolve("ks/t-1/rocksdb/1"));
        Files.writeString(store.resolveSibling("LIVE"), "1\n");
        refuses(cassandra, cassandra::uninstall, "there are tables in Petra");
        FileTree.delete(cassandra.data().resolve("ks"));
        cassandra.uninstall().apply();

        assertThat(cassandra.everything()).isEqualTo(before);
    }

    /** Its layouts are those of 5.0. */
    @ParameterizedTest
    @EnumSource
    void theNextMajorReleaseIsRefusedInEachLayout(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        Path lib = kind == Kind.TARBALL ? cassandra.home().resolve("lib") : cassandra.home();
        Files.delete(lib.resolve("apache-cassandra-5.0.9.jar"));
        Path jar = lib.resolve("apache-cassandra-6.0-alpha2.jar");
        cassandra.cassandra(jar, "6.0-alpha2");
        if (kind != Kind.TARBALL) {
            Files.delete(lib.resolve("apache-cassandra.jar"));
            Files.createSymbolicLink(lib.resolve("apache-cassandra.jar"), jar.getFileName());
        }
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                jar
                        + " is Cassandra 6.0-alpha2, and this version of Petra knows 5.0.6, 5.0.7,"
                        + " 5.0.9 (docs/compatibility.md)");
    }

    @Test
    void aWovenJarIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        FakeCassandra.zip(
                cassandra.home().resolve("lib/apache-cassandra-5.0.9.jar"),
                Map.of(
                        "org/apache/cassandra/service/CassandraDaemon.class",
                        "",
                        "META-INF/petra/woven",
                        "x"));
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "was woven: such a node needs no agent");
        refuses(cassandra, cassandra::uninstall, "was woven, and does not start without Petra");
    }

    @ParameterizedTest
    @EnumSource
    void twoCassandrasAreRefused(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        cassandra.cassandra(cassandra.home().resolve("lib/old.jar"), "5.0.9");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "several Cassandras on the class path: ",
                "lib/old.jar",
                "apache-cassandra-5.0.9.jar");
    }

    @Test
    void aFolderWithoutCassandraIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Files.delete(cassandra.home().resolve("lib/apache-cassandra-5.0.9.jar"));
        refuses(cassandra, () -> cassandra.install(plugin), "have no jar of Cassandra");
        Installer nowhere = new Installer(directory, Optional.empty());
        refuses(
                cassandra,
                () -> nowhere.install(plugin, Optional.empty(), false),
                directory + " has no folder lib: name Cassandra's folder");
    }

    @Test
    void aConfigurationThatIsNotWhereTheScriptSaysIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.DEBIAN);
        Files.delete(cassandra.conf().resolve("jvm-server.options"));
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                cassandra.conf() + " has no jvm-server.options",
                "--conf");
        Files.writeString(cassandra.home().resolve("cassandra.in.sh"), "CASSANDRA_CONF=$HOME/c\n");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "sets CASSANDRA_CONF to $HOME/c",
                "--conf");
    }

    @Test
    void anotherFolderOfConfigurationCanBeNamed() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Path other = Files.move(cassandra.conf(), directory.resolve("root/elsewhere"));
        new Installer(cassandra.home(), Optional.of(other))
                .install(plugin, Optional.empty(), false)
                .apply();
        assertThat(other.resolve("cassandra.yaml")).content().contains("rocks");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "# BEGIN petra\n",
                "# END petra\n",
                "# END petra\n# BEGIN petra\n",
                "# BEGIN petra\n# BEGIN petra\n# END petra\n",
                "# BEGIN petra\n# END petra\n# BEGIN petra\n# END petra\n"
            })
    void damagedMarkersAreRefused(String markers) throws IOException {
        for (String file : new String[] {"cassandra.yaml", "jvm-server.options"}) {
            FakeCassandra cassandra =
                    FakeCassandra.make(Kind.TARBALL, directory.resolve("root-" + file));
            String text = cassandra.read(file);
            cassandra.write(file, text + markers);
            for (ThrowingCallable verb :
                    new ThrowingCallable[] {() -> cassandra.install(plugin), cassandra::uninstall})
                refuses(cassandra, verb, file + " has ", " petra", "by hand");
        }
    }

    @Test
    void aBlockWithoutItsLinesIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write("cassandra.yaml", FakeCassandra.YAML + "# BEGIN petra\n# END petra\n");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "lines between Petra's markers that are not the configuration 'rocks'");
        cassandra.write("cassandra.yaml", FakeCassandra.YAML);
        cassandra.write("jvm-server.options", "# BEGIN petra\n-ea\n# END petra\n");
        refuses(cassandra, () -> cassandra.install(plugin), "has 0 lines -javaagent:");
    }

    @Test
    void anotherVersionIsRefusedUnlessItIsToBeReplaced() throws IOException {
        FakeCassandra cassandra = make(Kind.DEBIAN);
        cassandra.install(plugin).apply();
        Path newer = FakeCassandra.plugin(directory.resolve("newer.jar"), "0.3.0");
        refuses(
                cassandra,
                () -> cassandra.install(newer),
                "petra-cassandra-5.0.jar is Petra 0.2.0",
                "0.3.0: --replace puts this one in its place");
        Files.setPosixFilePermissions(
                cassandra.jar(), PosixFilePermissions.fromString("rw-r-----"));
        Plan upgrade = cassandra.installer().install(newer, Optional.empty(), true);
        assertThat(upgrade.text()).startsWith("replace ").contains("(Petra 0.3.0)").hasLineCount(1);
        upgrade.apply();
        assertThat(cassandra.jar()).hasSameBinaryContentAs(newer);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(cassandra.jar())))
                .isEqualTo("rw-r-----");
        assertThat(cassandra.installer().install(newer, Optional.empty(), true).isEmpty()).isTrue();
    }

    @Test
    void aJarThatWasCopiedHalfIsRefusedAndCanBeReplaced() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Files.write(cassandra.jar(), new byte[] {'P', 'K', 3, 4});
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                cassandra.jar() + " is no whole jar, or cannot be read");
        cassandra.installer().install(plugin, Optional.empty(), true).apply();
        assertThat(cassandra.jar()).hasSameBinaryContentAs(plugin);
    }

    @Test
    void aPluginThatWasPutThereByHandIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Files.copy(plugin, cassandra.home().resolve("lib/petra-cassandra-5.0-0.1.0.jar"));
        refuses(
                cassandra,
                () -> cassandra.installer().install(plugin, Optional.empty(), true),
                "lib/petra-cassandra-5.0-0.1.0.jar is Petra 0.2.0 and was not put there by petra"
                        + " install");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "jvm-server.options|-javaagent:/usr/share/petra-0.1.jar",
                "jvm17-server.options|-javaagent:/usr/share/petra.jar=x",
                "cassandra-env.sh|JVM_OPTS=\"$JVM_OPTS -javaagent:$CASSANDRA_HOME/lib/petra.jar\"",
                "cassandra-env.sh|JVM_OPTS=\"$JVM_OPTS -javaagent:$CASSANDRA_HOME/bin/link.jar\""
            })
    void anAgentLineWrittenByHandIsRefused(String line) throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        Files.createSymbolicLink(cassandra.home().resolve("bin/link.jar"), cassandra.jar());
        String[] fields = line.split("\\|", 2);
        Files.writeString(
                cassandra.conf().resolve(fields[0]), fields[1] + "\n", StandardOpenOption.APPEND);
        refuses(cassandra, () -> cassandra.install(plugin), fields[0] + ": " + fields[1]);
        refuses(cassandra, cassandra::uninstall, fields[0] + ": " + fields[1]);
    }

    @Test
    void aNodeWithAnotherYamlIsRefused() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.write("jvm-server.options", "-Dcassandra.config=file:///other.yaml\n");
        refuses(
                cassandra,
                () -> cassandra.install(plugin),
                "has -Dcassandra.config=file:///other.yaml, so the node may not read");
    }

    @Test
    void aPathThatAShellTakesApartIsRefused() throws IOException {
        FakeCassandra cassandra = FakeCassandra.make(Kind.TARBALL, directory.resolve("a b"));
        refuses(cassandra, () -> cassandra.install(plugin), "cannot pass on the path of");
    }

    @Test
    void aFileThatIsNotWritableIsRefusedBeforeAnythingIsChanged() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Installer other =
                new Installer(
                        cassandra.home(),
                        Optional.empty(),
                        change -> !change.file().endsWith("jvm-server.options"));
        refuses(
                cassandra,
                () -> other.install(plugin, Optional.empty(), false),
                "jvm-server.options or its folder is not writable");
    }

    /** Root may write everywhere, so this asks the file's own permissions where it can. */
    @Test
    void aFolderThatIsNotThereIsNotWritable() {
        assertThat(new Change.Delete(directory.resolve("none/x")).isAllowed()).isFalse();
        assertThat(new Change.Delete(directory.resolve("x")).isAllowed()).isTrue();
    }

    @Test
    void whatCannotBePreparedChangesNothing() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Plan plan = cassandra.install(plugin);
        Files.delete(plugin);
        refuses(cassandra, plan::apply, "the installation could not be changed: ");
    }

    @Test
    void aFileThatWasEditedMeanwhileIsNotOverwritten() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Plan plan = cassandra.install(plugin);
        cassandra.write("jvm-server.options", "-mine\n");
        assertThatThrownBy(plan::apply)
                .isInstanceOf(InstallException.class)
                .hasMessageContaining("jvm-server.options was changed by someone else meanwhile");
        assertThat(cassandra.read("jvm-server.options")).isEqualTo("-mine\n");
        cassandra.install(plugin).apply();
        assertThat(cassandra.read("jvm-server.options")).startsWith("-mine\n# BEGIN petra\n");
    }

    @Test
    void whatAKilledProcessLeftIsSwept() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Path left = cassandra.conf().resolve(".cassandra.yaml.petra-999999999");
        Files.writeString(left, "half");
        cassandra.install(plugin).apply();
        assertThat(left).doesNotExist();
    }

    @Test
    void aLinkToAFileStaysALink() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Path yaml = cassandra.conf().resolve("cassandra.yaml");
        Path target = Files.move(yaml, directory.resolve("root/managed.yaml"));
        Files.createSymbolicLink(yaml, target);
        cassandra.install(plugin).apply();
        assertThat(yaml).isSymbolicLink();
        assertThat(target).content().contains("rocks");
    }

    @Test
    void theJarHasThePermissionsOfCassandras() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        Path jar = cassandra.home().resolve("lib/apache-cassandra-5.0.9.jar");
        Files.setPosixFilePermissions(jar, PosixFilePermissions.fromString("rw-r--r--"));
        Files.setPosixFilePermissions(plugin, PosixFilePermissions.fromString("rw-------"));
        cassandra.install(plugin).apply();
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(cassandra.jar())))
                .isEqualTo("rw-r--r--");
    }

    @Test
    void anInstallationThatWasMovedGetsItsNewPath() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        Path moved = Files.move(cassandra.home(), directory.resolve("root/moved"));
        Plan plan = new Installer(moved, Optional.empty()).install(plugin, Optional.empty(), false);
        assertThat(plan.changes()).hasSize(1);
        plan.apply();
        assertThat(moved.resolve("conf/jvm-server.options"))
                .content()
                .endsWith(
                        "# BEGIN petra\n-javaagent:"
                                + moved.resolve("lib/petra-cassandra-5.0.jar")
                                + "\n# END petra\n");
    }

    @Test
    void uninstallRefusesWhatWouldLeaveTheYamlBroken() throws IOException {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        String yaml = cassandra.read("cassandra.yaml");
        cassandra.write("cassandra.yaml", yaml.replace("inherits: skiplist", "inherits: rocks"));
        refuses(
                cassandra,
                cassandra::uninstall,
                "has the memtable configuration 'default', which needs Petra as well");
        cassandra.write(
                "cassandra.yaml",
                yaml.replace("    # END petra", "    x: {class_name: T}\n    # END petra"));
        refuses(cassandra, cassandra::uninstall, "has other settings than the configuration");
    }

    @ParameterizedTest
    @EnumSource
    void uninstallRefusesWhileThereAreTables(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        cassandra.install(plugin).apply();
        Path table = cassandra.data().resolve("ks/emp-0123456789abcdef0123456789abcdef");
        Files.createDirectories(table.resolve("rocksdb/3"));
        Files.writeString(table.resolve("rocksdb/LIVE"), "3\n");
        Files.createDirectories(cassandra.data().resolve("ks/stock-01/snapshots/s"));
        refuses(
                cassandra,
                cassandra::uninstall,
                "tables in Petra that could not be read any more: ks.emp. ",
                "--stores-stay");
        assertThat(cassandra.installer().uninstall(true).changes()).hasSize(3);
        Files.delete(table.resolve("rocksdb/LIVE"));
        refuses(cassandra, cassandra::uninstall, "ks.emp");
        // Damaged: the checksum is that of 3.
        Files.writeString(table.resolve("rocksdb/LIVE"), "4\ncrc32c=ee2ae5f0\n");
        refuses(cassandra, cassandra::uninstall, "ks.emp");
        // What is alive is on a disk that is not mounted.
        Files.writeString(table.resolve("rocksdb/LIVE"), "4\ncrc32c=94472cb5\n");
        for (String created : new String[] {"4\n", "5\n", "damaged"}) {
            Files.writeString(table.resolve("rocksdb/CREATED"), created);
            refuses(cassandra, cassandra::uninstall, "ks.emp");
        }
        // The table was truncated.
        Files.writeString(table.resolve("rocksdb/CREATED"), "3\n");
        // A generation below LIVE is garbage.
        Files.writeString(table.resolve("rocksdb/LIVE"), "4\ncrc32c=94472cb5\n");
        Files.createDirectories(table.resolve("snapshots/dropped-1/rocksdb/3"));
        assertThat(cassandra.uninstall().notes())
                .singleElement()
                .asString()
                .startsWith("1 snapshots of tables in Petra stay");
        Files.createDirectories(table.resolve("rocksdb_shadow/1"));
        assertThat(cassandra.uninstall().notes())
                .last()
                .asString()
                .startsWith(table.resolve("rocksdb_shadow") + " stays on disk.");
        for (String mark : new String[] {"rocksdb/MOVING", "snapshots/dropped-1/PETRA_ASIDE"}) {
            Files.createFile(table.resolve(mark));
            refuses(cassandra, cassandra::uninstall, "ks.emp");
            Files.delete(table.resolve(mark));
        }
        Path guard = table.resolve("rocksdb/this_table_needs_Petra_which_was_not_loaded.db");
        Files.createFile(guard);
        assertThat(cassandra.installer().uninstall(true).changes()).hasSize(3);
        cassandra.uninstall().apply();
        assertThat(cassandra.jar()).doesNotExist();
        assertThat(guard).doesNotExist();
    }

    @Test
    void uninstallRefusesWhereTheDataCannotBeFound() throws IOException {
        FakeCassandra cassandra = make(Kind.DEBIAN);
        cassandra.install(plugin).apply();
        String yaml = cassandra.read("cassandra.yaml");
        Path data = cassandra.data();
        Path away = Files.move(data, data.resolveSibling("away"));
        refuses(cassandra, cassandra::uninstall, "data directory " + data + " is not there");
        Files.move(away, data);
        cassandra.write("cassandra.yaml", yaml.replace(data.toString(), "data"));
        refuses(cassandra, cassandra::uninstall, "depends on where the node was started");
        cassandra.write("cassandra.yaml", yaml.replace("\n    - " + data, " " + data + "/none"));
        refuses(cassandra, cassandra::uninstall, "data directory " + data + "/none is not there");
        cassandra.write("cassandra.yaml", yaml.replaceFirst("data_file_directories:\n.*\n", ""));
        refuses(cassandra, cassandra::uninstall, "names no data_file_directories");
        assertThat(cassandra.installer().uninstall(true).changes()).hasSize(3);
    }

    /** The disk with a table's store was taken out: the table would be empty without Petra. */
    @ParameterizedTest
    @EnumSource
    void uninstallRefusesWhereAFileSaysThatAStoreIsElsewhere(Kind kind) throws IOException {
        FakeCassandra cassandra = make(kind);
        cassandra.install(plugin).apply();
        Path marker =
                Files.createDirectories(cassandra.data().resolve("ks/t-01")).resolve("PETRA_STORE");
        Files.writeString(marker, "version=1\n");
        refuses(
                cassandra,
                cassandra::uninstall,
                "no data was found, and these files say that it is in another data directory: "
                        + marker
                        + ". ",
                "put its directory back into data_file_directories",
                "Delete it yourself if the data is lost",
                "--stores-stay");
        assertThat(cassandra.installer().uninstall(true).changes()).hasSize(3);
        Files.delete(marker);
        cassandra.uninstall().apply();
        assertThat(cassandra.jar()).doesNotExist();
    }

    /** A disk of a table that is not mounted, and a data directory on one. */
    @Test
    void uninstallRefusesWhereItCannotTellWhetherThereAreTables() throws IOException {
        FakeCassandra cassandra = make(Kind.DEBIAN);
        cassandra.install(plugin).apply();
        Path keyspace = Files.createDirectories(cassandra.data().resolve("ks"));
        Path link =
                Files.createSymbolicLink(
                        keyspace.resolve("t-01"), directory.resolve("not-mounted"));
        refuses(cassandra, cassandra::uninstall, "cannot be searched", link.toString());
        Files.delete(link);
        Path store = Files.createDirectories(keyspace.resolve("t-01"));
        Files.createSymbolicLink(store.resolve("rocksdb"), directory.resolve("not-mounted"));
        refuses(cassandra, cassandra::uninstall, "cannot be searched", "rocksdb");
        FileTree.delete(keyspace);
        Files.delete(cassandra.data().resolve("system"));
        refuses(cassandra, cassandra::uninstall, "is empty");
        assertThat(cassandra.installer().uninstall(true).changes()).hasSize(3);
    }

    @Test
    void uninstallRefusesWhileTheNodeRunsWhateverPathItIsNamedBy() throws Exception {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        Path link = Files.createSymbolicLink(directory.resolve("root/current"), cassandra.home());
        Process node =
                new ProcessBuilder("sh", "-c", "read x", "-javaagent:" + cassandra.jar()).start();
        try {
            refuses(
                    cassandra,
                    cassandra::uninstall,
                    "a node runs with " + cassandra.jar() + " (pid " + node.pid() + ")");
            refuses(
                    cassandra,
                    () -> new Installer(link, Optional.empty()).uninstall(true),
                    "a node runs with " + link,
                    "(pid " + node.pid() + ")");
        } finally {
            node.getOutputStream().close();
            node.waitFor();
        }
        cassandra.uninstall().apply();
    }

    /** A woven one has no agent; and a path may lead over a link, or from where it was started. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "%s/apache/lib/petra-cassandra-5.0.jar",
                "conf:%s/current/lib/petra-cassandra-5.0.jar:lib/x.jar",
                "conf:lib/x.jar:../bin/../lib/petra-cassandra-5.0.jar",
                "-javaagent:%s/current/lib/petra-cassandra-5.0.jar=x"
            })
    void uninstallRefusesWhileANodeRunsWithTheJarOnItsClassPath(String path) throws Exception {
        FakeCassandra cassandra = make(Kind.TARBALL);
        cassandra.install(plugin).apply();
        Path root = cassandra.root();
        Files.createSymbolicLink(root.resolve("current"), cassandra.home());
        String argument = path.formatted(root);
        Process nodetool = process(cassandra, argument, "org.apache.cassandra.tools.NodeTool");
        Process node = process(cassandra, argument, "org.apache.cassandra.service.CassandraDaemon");
        try {
            refuses(
                    cassandra,
                    cassandra::uninstall,
                    "a node runs with " + cassandra.jar() + " (pid " + node.pid() + ")");
            node.getOutputStream().close();
            node.waitFor();
            cassandra.uninstall().apply();
        } finally {
            node.destroy();
            nodetool.destroy();
        }
    }

    /** With these arguments; it waits for its input. */
    private static Process process(FakeCassandra cassandra, String path, String mainClass)
            throws IOException {
        return new ProcessBuilder("sh", "-c", "read x", "-cp", path, mainClass)
                .directory(cassandra.conf().toFile())
                .start();
    }

    /** Whatever is refused is refused before anything is changed. */
    private static void refuses(FakeCassandra cassandra, ThrowingCallable verb, String... texts)
            throws IOException {
        SortedMap<String, String> before = cassandra.everything();
        assertThatThrownBy(verb)
                .isInstanceOf(InstallException.class)
                .hasMessageContainingAll(texts);
        assertThat(cassandra.everything()).isEqualTo(before);
    }
}
