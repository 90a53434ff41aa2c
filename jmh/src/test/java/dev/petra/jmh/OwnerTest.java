// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.List;
import org.junit.jupiter.api.Test;

class OwnerTest {
    private static final Owner MINE = Owner.mine();

    @Test
    void whatItMakesAndStartsIsKnownAsItsOwn() {
        assertThat(Owner.of(MINE.prefix() + "node")).contains(MINE);
        assertThat(Owner.of(List.of("java", "-Xmx1g", MINE.option(), "Main"))).contains(MINE);
        assertThat(Owner.of("petra-bench-node-123")).isEmpty();
        assertThat(Owner.of("petra-cluster-node1")).isEmpty();
        assertThat(Owner.of(List.of("java", "Main"))).isEmpty();
        // With the number of a node, as the longest name of a container.
        assertThat((MINE.prefix() + "1z141z3-node100").length()).isLessThan(63);
    }

    @Test
    void aProcessIsDeadWhenItHasEndedOrItsIdIsAnothers() throws IOException, InterruptedException {
        assertThat(MINE.isDead()).isFalse();
        assertThat(new Owner(MINE.namespace(), MINE.pid(), MINE.started() - 1).isDead()).isTrue();
        Process ended = new ProcessBuilder("true").start();
        ended.waitFor();
        Owner dead = new Owner(MINE.namespace(), ended.pid(), MINE.started());
        assertThat(dead.isDead()).isTrue();
        // In a container its id means another process here.
        assertThat(new Owner(MINE.namespace() + 1, dead.pid(), dead.started()).isDead()).isFalse();
    }
}
