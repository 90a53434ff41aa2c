// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.disk.Disk;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RememberedDifferencesTest {
    @TempDir Path first;
    @TempDir Path second;

    private final AtomicLong clock = new AtomicLong();

    private List<ShadowFolder> folders() {
        return List.of(new ShadowFolder(first, Disk.REAL), new ShadowFolder(second, Disk.REAL));
    }

    private RememberedDifferences open() {
        return new RememberedDifferences("ks.t", clock::get);
    }

    @Test
    void theFirstIsNotedAtOnceAndFurtherOnesOnceInASecond() {
        RememberedDifferences shadow = open();
        assertThat(shadow.recall(this::folders, 0)).isZero();
        shadow.remember(1, this::folders);
        assertThat(open().recall(this::folders, 0)).isEqualTo(1);
        shadow.remember(2, this::folders);
        shadow.remember(3, this::folders);
        assertThat(open().recall(this::folders, 0)).isEqualTo(1);
        clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
        shadow.remember(4, this::folders);
        assertThat(open().recall(this::folders, 0)).isEqualTo(4);
        shadow.remember(5, this::folders);
        shadow.catchUp(this::folders);
        assertThat(open().recall(this::folders, 0)).isEqualTo(5);
    }

    @Test
    void theyAreFoundInEachDirectory() {
        new ShadowFolder(second, Disk.REAL).writeDifferent(7);
        assertThat(open().recall(this::folders, 0)).isEqualTo(7);
    }

    /** As of a comparison that has not noticed yet that the table was altered. */
    @Test
    void afterTheEndNothingIsNoted() {
        RememberedDifferences shadow = open();
        shadow.remember(1, this::folders);
        shadow.remember(2, this::folders);
        shadow.end(this::folders);
        assertThat(open().recall(this::folders, 0)).isEqualTo(2);
        assertThat(shadow.forget(this::folders)).isTrue();
        clock.addAndGet(TimeUnit.SECONDS.toNanos(1));
        shadow.remember(3, this::folders);
        shadow.catchUp(this::folders);
        assertThat(open().recall(this::folders, 0)).isZero();
    }

    @Test
    void whatCannotBeReadCountsAsADifference() {
        assertThat(
                        open().recall(
                                        () -> {
                                            throw new IllegalStateException("no disk");
                                        },
                                        0))
                .isEqualTo(1);
    }

    /** As of ALTER from one shadow to another. */
    @Test
    void whatCannotBeNotedIsHandedToTheNextShadow() {
        RememberedDifferences before = open();
        Disk full = new FailingDisk(first, second);
        Supplier<List<ShadowFolder>> failing =
                () -> List.of(new ShadowFolder(first, full), new ShadowFolder(second, full));
        before.remember(3, failing);
        before.end(failing);
        assertThat(open().recall(this::folders, 0)).isZero();
        assertThat(open().recall(this::folders, before.found())).isEqualTo(3);
        // And is noted by that.
        assertThat(open().recall(this::folders, 0)).isEqualTo(3);
        assertThat(before.forget(this::folders)).isTrue();
        assertThat(before.found()).isZero();
    }

    /** Whoever has a shadow made anew is told: a restart might refuse the engine again. */
    @Test
    void whatCannotBeForgottenIsTold() {
        RememberedDifferences shadow = open();
        shadow.remember(1, this::folders);
        Disk failing = new FailingDisk(first);
        assertThat(shadow.forget(() -> List.of(new ShadowFolder(first, failing)))).isFalse();
        assertThat(open().recall(this::folders, 0)).isEqualTo(1);
    }

    @Test
    void theyAreNotedOnEachDiskThatCanBeWritten() {
        open().remember(2, this::folders);
        for (Path each : List.of(first, second))
            assertThat(new ShadowFolder(each, Disk.REAL).different()).isEqualTo(2);
        RememberedDifferences shadow = open();
        Disk full = new FailingDisk(first);
        shadow.remember(
                5, () -> List.of(new ShadowFolder(first, full), new ShadowFolder(second, full)));
        assertThat(new ShadowFolder(first, Disk.REAL).different()).isEqualTo(2);
        assertThat(open().recall(this::folders, 0)).isEqualTo(5);
    }

    /** Directories that cannot be written. */
    private static final class FailingDisk implements Disk {
        private final List<Path> failing;

        FailingDisk(Path... failing) {
            this.failing = List.of(failing);
        }

        private void check(Path path) throws IOException {
            for (Path each : failing)
                if (path.startsWith(each)) throw new IOException("No space left on device");
        }

        @Override
        public void createDirectory(Path directory) throws IOException {
            check(directory);
            REAL.createDirectory(directory);
        }

        @Override
        public void write(Path file, byte[] content) throws IOException {
            check(file);
            REAL.write(file, content);
        }

        @Override
        public void rename(Path from, Path to) throws IOException {
            check(to);
            REAL.rename(from, to);
        }

        @Override
        public void syncDirectory(Path directory) throws IOException {
            check(directory);
            REAL.syncDirectory(directory);
        }

        @Override
        public void delete(Path tree) {
            REAL.delete(tree);
        }
    }
}
