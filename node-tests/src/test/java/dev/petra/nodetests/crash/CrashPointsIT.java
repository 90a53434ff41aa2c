// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static dev.petra.nodetests.fixture.CrashPoints.CFS;
import static dev.petra.nodetests.fixture.CrashPoints.OURS;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.launcher.NodeException;
import dev.petra.nodetests.fixture.CrashPoints;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A test that waits at a point which is not there would wait in vain. */
class CrashPointsIT {
    @TempDir Path directory;

    @Test
    void aPointThatNamesNoMethodFailsTheStart() throws Exception {
        for (String wrong :
                List.of(
                        OURS + "index.RowPages#renamed",
                        OURS + "index.Renamed#next",
                        // Without code.
                        OURS + "index.KeySource#next")) {
            CrashPoints crashes = new CrashPoints(directory, List.of(CFS + "#reload", wrong));
            Path node = directory.resolve("node" + wrong.hashCode());
            assertThatThrownBy(() -> TestNode.start(node, crashes::in))
                    .isInstanceOf(NodeException.class)
                    .hasMessageContaining("The crash point " + wrong + " names no method");
        }
    }
}
