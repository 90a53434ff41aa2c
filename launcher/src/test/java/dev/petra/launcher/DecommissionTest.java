// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** When a node has left. */
class DecommissionTest {
    /** A node with one mode after the other; the last stays. */
    private static class Leaving implements ClusterNodes {
        private final Deque<String> modes;
        private final int exitCode;
        private final List<String> done = new ArrayList<>();
        private boolean isKilledAtStop;

        Leaving(int exitCode, String... modes) {
            this.exitCode = exitCode;
            this.modes = new ArrayDeque<>(List.of(modes));
        }

        @Override
        public NodeTool.Result nodetool(int number, String... arguments) {
            assertThat(arguments).containsExactly("netstats");
            String mode = modes.size() > 1 ? modes.remove() : modes.element();
            return new NodeTool.Result(0, mode + "\nNot sending any streams.\n");
        }

        @Override
        public int nodetoolInherited(int number, String... arguments) {
            assertThat(arguments).containsExactly("decommission", "-f");
            return exitCode;
        }

        @Override
        public String place() {
            return "the test";
        }

        @Override
        public List<Integer> present() {
            return List.of(1, 2);
        }

        @Override
        public boolean isRunning(int number) {
            return true;
        }

        @Override
        public String start(int number, @Nullable HeapSize heap) {
            throw new AssertionError();
        }

        @Override
        public void stop(int number) {
            done.add("stop " + number);
            if (isKilledAtStop) throw new NodeException("killed");
        }

        @Override
        public void noteLeft(int number) {
            done.add("note " + number);
        }

        @Override
        public List<Integer> left() {
            return done.contains("note 2") && !done.contains("delete 2") ? List.of(2) : List.of();
        }

        @Override
        public void delete(int number) {
            done.add("delete " + number);
        }

        @Override
        public void deleteRest() {
            throw new AssertionError();
        }

        @Override
        public String log(int number) {
            return "its log";
        }
    }

    /** An earlier command began it: nodetool returns at once, and its data was deleted. */
    @Test
    void aNodeThatIsStillLeavingIsWaitedFor() {
        Leaving nodes = new Leaving(0, "Mode: LEAVING", "Mode: LEAVING", "Mode: DECOMMISSIONED");
        Decommission.run(nodes, 2);
        assertThat(nodes.modes).containsExactly("Mode: DECOMMISSIONED");
        assertThat(nodes.done).containsExactly("note 2", "stop 2", "delete 2");
        assertThat(Decommission.finish(nodes)).isEmpty();
    }

    /** It could not be started again, nor deleted by any command but 'down'. */
    @Test
    void aNodeThatHasLeftIsDeletedByTheNextCommand() {
        Leaving nodes = new Leaving(0, "Mode: DECOMMISSIONED");
        nodes.isKilledAtStop = true;
        assertThatThrownBy(() -> Decommission.run(nodes, 2)).hasMessage("killed");
        assertThat(nodes.done).containsExactly("note 2", "stop 2");
        nodes.isKilledAtStop = false;
        assertThat(Decommission.finish(nodes)).containsExactly(2);
        assertThat(nodes.done).endsWith("stop 2", "delete 2");
    }

    /** As one whose directory is a link: it had left, and stood in the way of each command. */
    @Test
    void aNodeThatCannotBeDeletedStays() {
        Leaving linked =
                new Leaving(0, "Mode: DECOMMISSIONED") {
                    @Override
                    public NodeTool.Result nodetool(int number, String... arguments) {
                        throw new AssertionError();
                    }

                    @Override
                    public void checkDeletable(int number) {
                        throw new NodeException("a link");
                    }
                };
        assertThatThrownBy(() -> Decommission.run(linked, 2)).hasMessage("a link");
        assertThat(linked.done).isEmpty();
    }

    @Test
    void aNodeThatStaysHasNotLeft() {
        Leaving staying = new Leaving(0, "Mode: DECOMMISSION_FAILED");
        assertThatThrownBy(() -> Decommission.run(staying, 2))
                .isInstanceOf(NodeException.class)
                .hasMessageContaining("its mode is DECOMMISSION_FAILED; nothing was deleted");
        assertThat(staying.done).isEmpty();
        assertThatThrownBy(() -> Decommission.run(new Leaving(0, "refused"), 2))
                .hasMessageContaining("refused");
        assertThatThrownBy(() -> Decommission.run(new Leaving(2, "Mode: LEAVING"), 2))
                .hasMessageContaining("exit code 2");
    }
}
