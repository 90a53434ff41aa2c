// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.pool.TypePool;
import org.junit.jupiter.api.Test;

/**
 * Crash points are named by strings, which a compiler does not follow: a node would refuse a name
 * that is gone half an hour later.
 */
class CrashPointNamesTest {
    private static final Pattern POINT =
            Pattern.compile("(?:dev\\.petra|org\\.apache)\\.[\\w.$]+#\\w+");

    /** As tests choose among a node's points: {@code enter MigrateIn#finish}, {@code #reload}. */
    private static final Pattern END = Pattern.compile("(?:[a-z]+ )*[\\w$]*#\\w+");

    /** Of names that are wrong on purpose. */
    private static final String WRONG = "CrashPointsIT";

    /** The tag of a string in a class file's pool of constants. */
    private static final int STRING = 8;

    @Test
    void eachNamesAMethod() throws Exception {
        Set<String> strings = strings();
        List<String> points = strings.stream().filter(POINT.asMatchPredicate()).toList();
        assertThat(points).hasSizeGreaterThan(50);
        TypePool classes =
                TypePool.Default.of(
                        new ClassFileLocator.Compound(
                                classesOf("cassandra"),
                                classesOf("engine-rocks"),
                                ClassFileLocator.ForClassLoader.ofSystemLoader()));
        assertThat(points)
                .allSatisfy(
                        point -> {
                            String[] parts = point.split("#", -1);
                            assertThat(CrashAgent.isThere(classes, parts[0], parts[1]))
                                    .as("a method with code is named %s", point)
                                    .isTrue();
                        });
        List<String> ends = strings.stream().filter(END.asMatchPredicate()).toList();
        assertThat(ends).hasSizeGreaterThan(50);
        assertThat(ends)
                .allSatisfy(
                        end -> {
                            String name = end.substring(end.lastIndexOf(' ') + 1);
                            assertThat(points)
                                    .as("points that end with %s", name)
                                    .anyMatch(point -> point.endsWith(name));
                        });
    }

    /** They are no dependencies of these tests, whose nodes have them from the release. */
    private static ClassFileLocator classesOf(String module) {
        Path classes = Path.of("..", module, "target", "classes");
        assertThat(classes).isDirectory();
        return new ClassFileLocator.ForFolder(classes.toFile());
    }

    /** Of all classes of these tests: constants are whole there. */
    private static Set<String> strings() throws Exception {
        Path root =
                Path.of(
                        CrashPointNamesTest.class
                                .getProtectionDomain()
                                .getCodeSource()
                                .getLocation()
                                .toURI());
        List<Path> files;
        try (Stream<Path> all = Files.walk(root)) {
            files =
                    all.filter(file -> file.toString().endsWith(".class"))
                            .filter(file -> !file.toString().contains(WRONG))
                            .toList();
        }
        Set<String> strings = new TreeSet<>();
        for (Path file : files) addStrings(file, strings);
        return strings;
    }

    private static void addStrings(Path file, Set<String> strings) throws IOException {
        ClassReader reader = new ClassReader(Files.readAllBytes(file));
        char[] buffer = new char[reader.getMaxStringLength()];
        for (int i = 1; i < reader.getItemCount(); i++) {
            int at = reader.getItem(i);
            if (at == 0 || reader.readByte(at - 1) != STRING) continue;
            strings.add((String) reader.readConst(i, buffer));
        }
    }
}
