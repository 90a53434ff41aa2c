// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class YamlTest {
    @TempDir private Path dir;

    @Test
    void readsBackWhatItWrites() throws IOException {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("text", "it's \"quoted\": # and\nmore ü");
        settings.put("number", 7);
        settings.put("bool", true);
        settings.put("size", "32MiB");
        settings.put("empty", "");
        settings.put("list", List.of(Map.of("a", List.of("x", "y"))));
        settings.put("map", Map.of("inner", Map.of("k", "v")));

        assertThat(Yaml.read(file(Yaml.dump(settings)))).isEqualTo(settings);
    }

    @ParameterizedTest
    @ValueSource(strings = {"on", "Off", "yes", "NO", "y", "null", "~", "1_000", "0x10", "1:30"})
    void quotesStringsThatCassandrasParserWouldTakeForSomethingElse(String text) {
        assertThat(Yaml.dump(Map.of("k", text))).isEqualTo("k: \"" + text + "\"\n");
    }

    @ParameterizedTest
    @ValueSource(strings = {"10000ms", "32MiB", "periodic", "org.apache.X", "/var/lib"})
    void leavesPlainWordsUnquoted(String text) {
        assertThat(Yaml.dump(Map.of("k", text))).isEqualTo("k: " + text + "\n");
    }

    @Test
    void mergesMapsAndReplacesEverythingElse() {
        Map<String, Object> merged =
                Yaml.merge(
                        Map.of("a", Map.of("x", 1, "y", 2), "l", List.of(1), "k", "old"),
                        Map.of("a", Map.of("y", 3), "l", List.of(2), "new", true));

        assertThat(merged)
                .isEqualTo(
                        Map.of(
                                "a",
                                Map.of("x", 1, "y", 3),
                                "l",
                                List.of(2),
                                "k",
                                "old",
                                "new",
                                true));
    }

    @Test
    void findsOnlyWhatIsAskedForAndDiffers() {
        List<Yaml.Difference> found =
                Yaml.differences(
                        Map.of("a", Map.of("x", 1, "y", 2), "same", 5, "unasked", 6),
                        Map.of("a", Map.of("y", 3), "same", "5", "absent", 1));

        assertThat(found)
                .containsExactlyInAnyOrder(
                        new Yaml.Difference("a.y", "2", "3"),
                        new Yaml.Difference("absent", "nothing", "1"));
    }

    @Test
    void namesTheFileThatIsNoMap() throws IOException {
        Path list = file("- a\n- b\n");
        Path broken = file("a: [1");

        assertThatThrownBy(() -> Yaml.read(list)).hasMessageContaining(list.toString());
        assertThatThrownBy(() -> Yaml.read(broken)).hasMessageContaining(broken.toString());
    }

    private Path file(String text) throws IOException {
        return Files.writeString(Files.createTempFile(dir, "settings", ".yaml"), text);
    }
}
