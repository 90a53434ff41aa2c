// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.common.util.concurrent.Uninterruptibles;
import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import java.nio.file.Path;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Directories;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** An operator has a shadow made anew while the node stops; and what is left of one that ends. */
class ShadowsTest {
    private static final TableMetadata TABLE =
            TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)");

    /** Done when somebody asks where the table is. */
    private static volatile Runnable atDirectories = () -> {};

    /** Only to be made hollow. */
    static class Table extends ColumnFamilyStore {
        Table(TableMetadataRef metadata) {
            super(null, "t", null, metadata, null, false, false, false);
        }

        @Override
        public Directories getDirectories() {
            atDirectories.run();
            return super.getDirectories();
        }
    }

    private final ColumnFamilyStore cfs = Hollow.of(Table.class);
    private final ShadowCopy copy;
    private final Shadow shadow;
    @TempDir Path directory;

    ShadowsTest() {
        HollowShadow.begin(cfs, TABLE);
        copy = HollowShadow.copy(cfs, 1, 0, () -> null);
        shadow = HollowShadow.of(cfs, false);
        HollowShadow.has(shadow, copy);
    }

    /** It had another answer than the table, which is noted on disk. */
    @BeforeEach
    void findDifference() {
        Directories directories = Hollow.of(Directories.class);
        Hollow.set(directories, Directories.class, "dataPaths", new File[] {new File(directory)});
        Hollow.set(cfs, ColumnFamilyStore.class, "directories", directories);
        HollowShadow.register(shadow);
        shadow.results.count(
                copy,
                cfs.decorateKey(ByteBufferUtil.bytes(1)),
                Comparison.Outcome.different("row", "1", ""));
        assertThat(noted()).isEqualTo(1);
    }

    @AfterEach
    void goOn() {
        atDirectories = () -> {};
        Hollow.set(null, Shadows.class, "stopped", false);
        HollowShadow.unregister(shadow);
    }

    private long noted() {
        return new ShadowFolder(directory, Disk.REAL).different();
    }

    private static void stop() {
        try {
            Shadows.stop();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /** What the stop notes of it would be of a copy that has ended. */
    @Test
    void noShadowIsMadeAnewWhenTheyHaveStopped() {
        stop();
        assertThat(Shadows.anew(TABLE)).contains("the node is being drained");
        assertThat(copy.isOver()).isFalse();
        assertThat(noted()).isEqualTo(1);
        assertThat(shadow.differences()).hasSize(1);
    }

    /** Else its copy went on after the restart, without what it had wrong. */
    @Test
    void aStopWaitsForAShadowThatIsBeingMadeAnew() throws Exception {
        CountDownLatch isForgetting = new CountDownLatch(1);
        CountDownLatch mayForget = new CountDownLatch(1);
        atDirectories =
                () -> {
                    isForgetting.countDown();
                    Uninterruptibles.awaitUninterruptibly(mayForget);
                };
        CompletableFuture<Boolean> isAnew =
                CompletableFuture.supplyAsync(() -> Shadows.anew(TABLE) == null);
        Thread stopping = new Thread(ShadowsTest::stop);
        try {
            assertThat(isForgetting.await(1, TimeUnit.MINUTES)).isTrue();
            stopping.start();
            while (!Set.of(Thread.State.BLOCKED, Thread.State.TERMINATED)
                    .contains(stopping.getState())) Thread.onSpinWait();
            assertThat(Shadows.areStopped()).isFalse();
        } finally {
            mayForget.countDown();
        }
        assertThat(isAnew.get(1, TimeUnit.MINUTES)).isTrue();
        stopping.join(TimeUnit.MINUTES.toMillis(1));
        assertThat(Shadows.areStopped()).isTrue();
        assertThat(noted()).isZero();
        // The next start has nothing to go on with.
        assertThat(shadow.ending(System.nanoTime())).isNull();
    }

    /** It stayed until the next shadow of any table, with all that the node knew of its table. */
    @Test
    void aShadowThatIsGoneIsForgotten() {
        Shadows.promotionEnds(shadow);
        assertThat(HollowShadow.former()).containsEntry(TABLE.id, shadow);
        Shadows.step(shadow);
        assertThat(shadow.isGone()).isTrue();
        assertThat(HollowShadow.former()).doesNotContainKey(TABLE.id);
    }
}
