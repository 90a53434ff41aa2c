// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.launcher.FileTree;
import dev.petra.launcher.UserTemp;
import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What a comparison has for itself while it lasts: this machine, and the directory of its results.
 * Of that it deletes only what a comparison has made.
 */
final class Claim implements Closeable {
    /** A comparison beside others is for tests of what it does, not of how fast. */
    private static final String BESIDE_OTHERS = "petra.bench.beside";

    /** Is in each directory that comparisons make, and delete. */
    static final String MARK = "made-by-petra-bench";

    private static final List<String> RESULTS =
            List.of("results.json", "report.md", "report.html", "answers.md");

    private final Path out;
    private final @Nullable FileChannel machine;
    private final FileChannel directory;

    private Claim(Path out, @Nullable FileChannel machine, FileChannel directory) {
        this.out = out;
        this.machine = machine;
        this.directory = directory;
    }

    /** There is another's; the message says what can be done. */
    static final class RefusedException extends IOException {
        private static final long serialVersionUID = 1;

        RefusedException(String message) {
            super(message);
        }
    }

    /** Where nodes and their data are. */
    static Path work(Path out) {
        return out.resolve("work");
    }

    /** Where histograms and time lines are, of each round. */
    static Path histograms(Path out) {
        return out.resolve("histograms");
    }

    /**
     * Changes nothing.
     *
     * @throws RefusedException if the directory has results, or what no comparison made
     */
    static void check(Path out) throws RefusedException {
        for (String result : RESULTS)
            if (Files.exists(out.resolve(result)))
                throw new RefusedException(
                        out
                                + " has results already, in "
                                + result
                                + ": name another directory with --out");
        for (Path own : List.of(work(out), histograms(out)))
            if (Files.exists(own, LinkOption.NOFOLLOW_LINKS) && !isMarked(own))
                throw new RefusedException(
                        own
                                + " is not from an earlier run, and would be deleted: name another"
                                + " directory with --out, or move it away");
    }

    /** An empty one too: a run that was ended before it had marked it. */
    private static boolean isMarked(Path own) {
        if (!Files.isDirectory(own, LinkOption.NOFOLLOW_LINKS)) return false;
        return Files.isRegularFile(own.resolve(MARK)) || children(own).isEmpty();
    }

    /** The mark last: a run that is ended while it deletes leaves what the next one may delete. */
    static List<Path> children(Path own) {
        try (Stream<Path> children = Files.list(own)) {
            return children.sorted(Comparator.comparing(child -> child.equals(own.resolve(MARK))))
                    .toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void delete(Path own) {
        children(own).forEach(FileTree::delete);
        FileTree.delete(own);
    }

    /**
     * Claims both until it is closed, or this process ends.
     *
     * @param out made if it is not there
     * @throws RefusedException if another comparison has one of them, and as {@link #check}
     */
    static Claim of(Path out) throws IOException {
        check(out);
        FileChannel machine = Boolean.getBoolean(BESIDE_OTHERS) ? null : machine();
        try {
            Files.createDirectories(out);
            FileChannel directory =
                    locked(
                            FileChannel.open(
                                    out.resolve("lock"),
                                    StandardOpenOption.CREATE,
                                    StandardOpenOption.WRITE),
                            "another run writes to " + out + ": name another directory with --out");
            return new Claim(out, machine, directory);
        } catch (IOException | RuntimeException e) {
            if (machine != null) machine.close();
            throw e;
        }
    }

    private static FileChannel machine() throws IOException {
        return locked(
                UserTemp.open("bench"),
                "another 'petra bench' or 'petra replay' is running on this machine, and"
                        + " each would slow the other down: wait until it has ended");
    }

    private static FileChannel locked(FileChannel file, String otherwise) throws IOException {
        try {
            if (file.tryLock() != null) return file;
        } catch (OverlappingFileLockException ofThisProcess) {
            // As if it were another's.
        }
        file.close();
        throw new RefusedException(otherwise);
    }

    /**
     * Makes the directories of this run anew. What one that failed has left are other rows,
     * perhaps, and rounds that would be taken for some of this.
     */
    void begin() throws IOException {
        check(out);
        for (Path own : List.of(work(out), histograms(out))) {
            if (Files.exists(own)) delete(own);
            Files.createDirectory(own);
            Files.writeString(
                    own.resolve(MARK), "A run of 'petra bench' deletes this directory.\n");
        }
    }

    /** Deletes what only the run itself needs. */
    void end() {
        delete(work(out));
    }

    /** For others to claim. */
    @Override
    public void close() throws IOException {
        try {
            directory.close();
        } finally {
            if (machine != null) machine.close();
        }
    }
}
