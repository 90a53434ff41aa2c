// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ProcessNodesTest {
    /** Nobody else's. */
    private static final int NODE = 97;

    @TempDir private Path temp;

    @AfterEach
    void forget() {
        System.clearProperty(Distribution.HOME_PROPERTY);
    }

    /** It became one of 127.0.0.1 that is its own seed. */
    @Test
    void aNodeWhoseFirstStartWasInterruptedBecomesWhatItWasToBe() throws IOException {
        Path lib = Files.createDirectories(temp.resolve("home/lib"));
        // The node ends at once: this is no agent.
        Files.createFile(lib.resolve("petra.jar"));
        Files.createDirectories(lib.resolve("cassandra"));
        Files.createFile(lib.resolve("cassandra/cassandra-all-0.jar"));
        System.setProperty(Distribution.HOME_PROPERTY, temp.resolve("home").toString());
        Path dir = temp.resolve("cluster");
        Path conf = Files.createDirectories(dir.resolve("node" + NODE + "/conf"));
        ProcessNodes nodes = new ProcessNodes(dir);

        for (int start = 0; start < 2; start++) {
            assertThatThrownBy(() -> nodes.start(NODE, null))
                    .hasMessageContaining("the node ended before CQL was open");

            assertThat(conf.resolve("cassandra.yaml"))
                    .content()
                    .contains("listen_address: \"127.0.0.97\"", "\"127.0.0.1:7000\"");
            assertThat(conf.resolve("jvm.options")).content().contains("jmx.local.port=7295");
            // Interrupted between the two.
            Files.delete(conf.resolve("jvm.options"));
        }
    }

    @Test
    void aNodeThatHasLeftIsKnownUntilItsDirectoryIsGone() throws IOException {
        ProcessNodes nodes = new ProcessNodes(temp.resolve("cluster"));
        assertThat(nodes.left()).isEmpty();
        for (int number : new int[] {1, 2, 3}) makeNode(number);
        nodes.noteLeft(3);
        nodes.noteLeft(2);
        assertThat(nodes.left()).containsExactly(2, 3);
        assertThat(nodes.present()).containsExactly(1, 2, 3);
        // Its deletion was ended before the note was removed.
        FileTree.delete(temp.resolve("cluster/node2"));
        assertThat(Decommission.finish(nodes)).containsExactly(2, 3);
        assertThat(nodes.left()).isEmpty();
        assertThat(nodes.present()).containsExactly(1);
        nodes.noteLeft(1);
        nodes.deleteAll();
        assertThat(temp.resolve("cluster")).doesNotExist();
    }

    /** As far as a start makes it. */
    private Path makeNode(int number) throws IOException {
        Path root = temp.resolve("cluster/node" + number);
        Files.createDirectories(root.resolve("data"));
        Files.createFile(root.resolve("petra.lock"));
        return root;
    }

    /** It went by the name alone: other programs, too, number the directories of their nodes. */
    @Test
    void aDirectoryOfOthersIsNotDeletedAndNothingElseIs() throws IOException {
        Path first = makeNode(1);
        Path theirs = Files.createDirectories(temp.resolve("cluster/node2/conf"));
        Files.createFile(theirs.resolve("cassandra.yaml"));
        ProcessNodes nodes = new ProcessNodes(temp.resolve("cluster"));
        assertThatThrownBy(nodes::deleteAll)
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("cluster/node2 is no directory of a node")
                .hasMessageContaining("no file petra.lock");
        assertThatThrownBy(() -> nodes.delete(2)).isInstanceOf(NodeException.class);
        assertThat(theirs.resolve("cassandra.yaml")).exists();
        assertThat(first.resolve("data")).exists();
        FileTree.delete(temp.resolve("cluster/node2"));

        Path elsewhere = Files.move(makeNode(2), temp.resolve("elsewhere"));
        Path link = Files.createSymbolicLink(temp.resolve("cluster/node2"), elsewhere);
        assertThatThrownBy(nodes::deleteAll).hasMessageContaining("or is a link");
        assertThat(elsewhere.resolve("data")).exists();
        Files.delete(link);

        // What is left if the deletion is interrupted at its very end.
        Files.createDirectory(temp.resolve("cluster/node2"));
        nodes.deleteAll();
        assertThat(temp.resolve("cluster")).doesNotExist();
    }
}
