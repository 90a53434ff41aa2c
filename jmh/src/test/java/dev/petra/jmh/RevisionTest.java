// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.NodeException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RevisionTest {
    @TempDir Path directory;

    private Path jar(String name, String content) throws IOException {
        Path jar = directory.resolve("petra.jar");
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar))) {
            out.putNextEntry(new ZipEntry(name));
            out.write(content.getBytes(UTF_8));
        }
        return jar;
    }

    @Test
    void itIsThatOfTheJarThatIsMeasured() throws IOException {
        Path jar =
                jar(
                        "dev/petra/cassandra/git.properties",
                        "git.commit.id.full=abc\ngit.dirty=true\n");
        Revision revision = Revision.of(jar);
        assertThat(revision).hasToString("abc, changed");
        assertThat(Machine.describe(directory, revision))
                .containsEntry("revision of Petra", "abc, changed");
        assertThat(revision.andOf(jar, new Revision("abc", false))).isSameAs(revision);
        assertThatThrownBy(() -> revision.andOf(jar, new Revision("def", true)))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining(jar.toString())
                .hasMessageContaining("abc")
                .hasMessageContaining("def")
                .hasMessageContaining("package");
    }

    @Test
    void aJarOfSourcesWithoutARepositoryHasNone() throws IOException {
        assertThat(Revision.of(jar("other", ""))).hasToString("unknown");
    }
}
