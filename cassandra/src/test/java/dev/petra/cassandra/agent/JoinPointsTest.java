// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import net.bytebuddy.pool.TypePool;
import org.junit.jupiter.api.Test;

class JoinPointsTest {
    private static final Pattern METHOD = Pattern.compile("`([A-Z][^`(]*)(\\([^`]*\\))`");

    @Test
    void cassandraHasTheMethodOfEach() {
        assertThat(JoinPoints.missing(ClassFiles.of(ClassLoader.getSystemClassLoader()))).isEmpty();
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

    /** {@code docs/join-points.md} lists every join point, and nothing that is not woven. */
    @Test
    void theDocumentListsTheseAndNoOthers() throws IOException {
        List<String> listed = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of("../docs/join-points.md"))) {
            if (!line.startsWith("| `")) continue;
            Matcher method = METHOD.matcher(line.split(" \\| ", 2)[0]);
            while (method.find()) listed.add(method.group(1) + simple(method.group(2)));
        }
        assertThat(listed)
                .containsExactlyInAnyOrderElementsOf(
                        JoinPoints.ALL.stream().map(JoinPointsTest::asListed).toList());
    }

    private static String asListed(JoinPoint point) {
        String type = point.type().substring(point.type().lastIndexOf('.') + 1);
        return type
                + "."
                + point.method()
                + simple(
                        point.parameters().stream()
                                .map(each -> each.replaceFirst("\\[L(.*);", "$1[]"))
                                .collect(Collectors.joining(", ", "(", ")")));
    }

    /** Parameter types by their simple names. */
    private static String simple(String parameters) {
        return parameters.replaceAll("[\\w.$]*[.$](\\w+)", "$1");
    }
}
