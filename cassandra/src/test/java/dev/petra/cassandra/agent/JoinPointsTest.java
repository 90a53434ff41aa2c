// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import net.bytebuddy.pool.TypePool;
import org.junit.jupiter.api.Test;

class JoinPointsTest {
    @Test
    void cassandraHasTheMethodOfEach() {
        assertThat(PetraAgent.missingMethods()).isEmpty();
    }

    @Test
    void eachHasItsAdvice() {
        TypePool classes = TypePool.Default.ofSystemLoader();
        for (JoinPoint point : JoinPoints.ALL)
            assertThat(classes.describe(point.advice()).isResolved())
                    .describedAs(point + " -> " + point.advice())
                    .isTrue();
    }

    @Test
    void noneIsListedTwice() {
        assertThat(JoinPoints.ALL.stream().map(JoinPoint::toString)).doesNotHaveDuplicates();
    }

    @Test
    void theDocumentNamesEach() throws IOException {
        String document = Files.readString(Path.of("../docs/join-points.md"));
        for (JoinPoint point : JoinPoints.ALL) {
            String type = point.type().substring(point.type().lastIndexOf('.') + 1);
            assertThat(document).contains("`" + type + "." + point.method());
        }
    }
}
