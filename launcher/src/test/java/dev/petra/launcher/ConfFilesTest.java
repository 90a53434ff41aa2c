// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ConfFilesTest {
    @TempDir private Path dir;

    @BeforeEach
    void writeFirst() {
        NodeConfig first = NodeConfig.builder(dir).nativePort(19042).heap("512MiB").build();
        first.directory().create();
        new ConfFiles(first).check();
        new ConfFiles(first).write();
    }

    @Test
    void aNewNodeHasItsFourFiles() throws IOException {
        assertThat(Files.readString(dir.resolve("conf/cassandra.yaml")))
                .contains("native_transport_port: 19042");
        assertThat(Files.readString(dir.resolve("conf/jvm.options")))
                .contains("-Xmx512m\n", "MaxDirectMemorySize=256m\n", "jmx.local.port=7199\n")
                .doesNotContain("jmx.remote.port");
        assertThat(dir.resolve("conf/logback.xml")).content().contains("system.log");
        assertThat(dir.resolve("conf/logback-tools.xml")).isNotEmptyFile();
    }

    @Test
    void editedFilesAreReadAndKept() throws IOException {
        Path yaml = dir.resolve("conf/cassandra.yaml");
        Path jvm = dir.resolve("conf/jvm.options");
        String edited =
                Files.readString(yaml).replace("native_transport_port: 19042", "# none")
                        + "native_transport_port: 19999 # mine\n";
        Files.writeString(yaml, edited);
        Files.writeString(jvm, "-Xmx2g\n#-Dx\n\n -Dcassandra.jmx.local.port=17200 \n");
        ConfFiles second = new ConfFiles(NodeConfig.builder(dir).build());

        NodeSettings settings = second.check();
        second.write();

        assertThat(settings.nativePort()).isEqualTo(19999);
        assertThat(settings.jmxPort()).isEqualTo(17200);
        assertThat(yaml).hasContent(edited);
        assertThat(JvmOptions.read(new NodeDirectory(dir)).lines())
                .containsExactly("-Xmx2g", "-Dcassandra.jmx.local.port=17200");
    }

    /** A file that was cut off was taken for the operator's own at the next start. */
    @Test
    void aFileThatCannotBeWrittenAsAWholeIsNotThere() throws IOException {
        for (String name : new String[] {"cassandra.yaml", "jvm.options", "logback.xml"}) {
            Path file = dir.resolve("conf").resolve(name);
            byte[] whole = Files.readAllBytes(file);
            Files.delete(file);
            Files.createSymbolicLink(
                    file.resolveSibling("." + name + ".part"), Path.of("/dev/full"));
            ConfFiles files = new ConfFiles(NodeConfig.builder(dir).nativePort(19042).build());

            assertThatThrownBy(files::write)
                    .isInstanceOf(NodeException.class)
                    .hasMessageContaining("cannot write " + file)
                    .hasMessageContaining("No space left on device");
            assertThat(file).doesNotExist();

            ConfFiles again =
                    new ConfFiles(NodeConfig.builder(dir).nativePort(19042).heap("512MiB").build());
            again.write();
            assertThat(file).hasBinaryContent(whole);
        }
    }

    @Test
    void askingForTheSameAgainIsNoContradiction() {
        NodeConfig same = NodeConfig.builder(dir).nativePort(19042).heap("512m").build();

        assertThat(new ConfFiles(same).check().nativePort()).isEqualTo(19042);
    }

    @Test
    void whatTheYamlContradictsIsAnErrorThatNamesFileSettingAndFlag() {
        NodeConfig other = NodeConfig.builder(dir).nativePort(9042).build();

        assertThatThrownBy(() -> new ConfFiles(other).check())
                .isInstanceOf(NodeException.class)
                .hasMessageContaining(
                        other.directory().yaml()
                                + " has 19042 for native_transport_port, where 9042 is asked for"
                                + " (--port)");
    }

    @Test
    void whatTheJvmOptionsContradictIsAnError() {
        NodeConfig other = NodeConfig.builder(dir).heap("1GiB").jmxPort(1).build();

        assertThatThrownBy(() -> new ConfFiles(other).check())
                .hasMessageContaining(
                        other.directory().jvmOptions()
                                + " has 512m for -Xmx, where 1024m is asked for (--heap)")
                .hasMessageContaining("(--jmx-port)");
    }

    @Test
    void overwritingIsThereForTests() {
        NodeConfig other = NodeConfig.builder(dir).nativePort(9999).overwriteConf(true).build();

        NodeSettings settings = new ConfFiles(other).check();
        new ConfFiles(other).write();

        assertThat(settings.nativePort()).isEqualTo(9999);
        assertThat(Yaml.read(other.directory().yaml()))
                .containsEntry("native_transport_port", 9999);
        assertThat(other.directory().jvmOptions()).content().contains("-Xmx1024m");
    }

    /** A container's cassandra.yaml has the passwords of keystores, and was readable by all. */
    @Test
    void anOverwrittenYamlIsReadByItsOwnerOnly() throws IOException {
        Path yaml = dir.resolve("conf/cassandra.yaml");
        for (Path before : new Path[] {yaml, yaml.resolveSibling(".cassandra.yaml.part")}) {
            Files.writeString(before, "a: b\n");
            Files.setPosixFilePermissions(before, PosixFilePermissions.fromString("rw-r--r--"));
        }

        new ConfFiles(NodeConfig.builder(dir).overwriteConf(true).build()).write();

        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(yaml)))
                .isEqualTo("rw-------");
        assertThat(yaml).content().contains("listen_address");
    }

    /** Each start threw away what the head of the file had invited to write. */
    @Test
    void whatIsOverwrittenDoesNotInviteEdits() throws IOException {
        Path yaml = dir.resolve("conf/cassandra.yaml");
        Path jvm = dir.resolve("conf/jvm.options");
        for (Path file : new Path[] {yaml, jvm})
            assertThat(file).content().contains("Written once: edit them as you like.");

        new ConfFiles(NodeConfig.builder(dir).overwriteConf(true).build()).write();

        for (Path file : new Path[] {yaml, jvm})
            assertThat(file).content().doesNotContain("as you like");
        assertThat(Files.readAllLines(yaml).get(1))
                .startsWith("# do not edit them here")
                .contains("PETRA_YAML");
        assertThat(Files.readAllLines(jvm).get(1))
                .startsWith("# do not edit them here")
                .contains("JVM_EXTRA_OPTS");
    }

    @Test
    void aPortThatIsNoNumberIsAnErrorThatNamesTheFile() throws IOException {
        Path yaml = dir.resolve("conf/cassandra.yaml");
        Files.writeString(yaml, "native_transport_port: many\n");

        assertThatThrownBy(() -> new ConfFiles(NodeConfig.builder(dir).build()).check())
                .hasMessageContaining("native_transport_port that is no port: many");
    }
}
