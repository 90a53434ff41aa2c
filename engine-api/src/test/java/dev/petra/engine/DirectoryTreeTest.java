// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.cassandra.io.FSWriteError;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DirectoryTreeTest {
    @TempDir Path base;

    @Test
    void aDirectoryIsDeletedWithAllThatIsInIt() throws IOException {
        Path tree = base.resolve("tree");
        Files.createDirectories(tree.resolve("a/b"));
        Files.writeString(tree.resolve("a/b/file"), "x");
        DirectoryTree.delete(tree);
        assertThat(tree).doesNotExist();
        DirectoryTree.delete(tree);
        assertThat(base).isEmptyDirectory();
    }

    @Test
    void whatALinkPointsToStays() throws IOException {
        Path elsewhere = Files.createDirectory(base.resolve("elsewhere"));
        Path file = Files.writeString(elsewhere.resolve("file"), "x");
        Path tree = Files.createDirectory(base.resolve("tree"));
        Files.createSymbolicLink(tree.resolve("link"), elsewhere);
        DirectoryTree.delete(tree);
        assertThat(tree).doesNotExist();
        assertThat(file).hasContent("x");

        Path link = Files.createSymbolicLink(base.resolve("link"), elsewhere);
        DirectoryTree.delete(link);
        assertThat(Files.isSymbolicLink(link)).isFalse();
        assertThat(file).hasContent("x");
    }

    /** A disk that fails, a mount that hangs: the folder may be there all the same. */
    @Test
    void whatCannotBeLookedAtIsNotTakenForDeleted() throws IOException {
        Path file = Files.writeString(base.resolve("file"), "x");
        assertThatThrownBy(() -> DirectoryTree.delete(file.resolve("folder")))
                .isInstanceOf(FSWriteError.class);
        assertThat(file).hasContent("x");
    }
}
