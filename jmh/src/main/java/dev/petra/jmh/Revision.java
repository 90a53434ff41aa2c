// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.Distribution;
import dev.petra.launcher.NodeException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Properties;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import org.jspecify.annotations.Nullable;

/**
 * The git revision that a jar was built of.
 *
 * @param commit or that none is known
 * @param changed whether it was built of other sources than the commit's
 */
record Revision(String commit, boolean changed) {
    /**
     * That of the jar that nodes run from.
     *
     * @throws NodeException if this benchmark was built of another
     */
    static Revision measured() {
        Path jar = Distribution.fromSystemProperty().plugin();
        try (InputStream own = Revision.class.getResourceAsStream("git.properties")) {
            return of(jar).andOf(jar, of(own));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** That of a plugin's jar. */
    static Revision of(Path jar) throws IOException {
        try (ZipFile all = new ZipFile(jar.toFile())) {
            ZipEntry properties = all.getEntry("dev/petra/cassandra/git.properties");
            if (properties == null) return of((InputStream) null);
            try (InputStream in = all.getInputStream(properties)) {
                return of(in);
            }
        }
    }

    private static Revision of(@Nullable InputStream properties) throws IOException {
        Properties git = new Properties();
        if (properties != null) git.load(properties);
        return new Revision(
                // Of sources without a repository the build knows none.
                git.getProperty("git.commit.id.full", "unknown"),
                Boolean.parseBoolean(git.getProperty("git.dirty")));
    }

    /**
     * This, of a jar, if the benchmark is of the same commit: another might ask it in another way.
     */
    Revision andOf(Path jar, Revision benchmark) {
        if (commit.equals(benchmark.commit)) return this;
        throw new NodeException(
                jar
                        + " was built of revision "
                        + commit
                        + ", and the benchmark of "
                        + benchmark.commit
                        + ": build both, with mvn -DskipTests -pl jmh -am package");
    }

    @Override
    public String toString() {
        return changed ? commit + ", changed" : commit;
    }
}
