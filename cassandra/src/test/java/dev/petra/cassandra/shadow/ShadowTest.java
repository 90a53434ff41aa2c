// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.hooks.NodetoolHooks;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.TestTable;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.compaction.OperationType;
import org.apache.cassandra.db.lifecycle.LifecycleTransaction;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ShadowTest {
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final ShadowFactory factory =
            ShadowFactory.consume(new HashMap<>(Map.of("engine", "rocks")), false);

    ShadowTest() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TestTables.reference());
    }

    /** ALTER to a shadow, back, to a shadow, back, and to a shadow before the first is deleted. */
    @Test
    void aThirdShadowWaitsForTheFirst() {
        Shadow first = new Shadow(cfs, factory, null);
        Shadow second = new Shadow(cfs, factory, first);
        Shadow third = new Shadow(cfs, factory, second);
        first.end();
        second.end();

        assertThat(second.step()).isNotNull();
        assertThat(second.isGone()).isFalse();
        assertThat(third.step()).isNotNull();
        assertThat(third.state()).contains("waits until the former shadow is deleted");

        assertThat(first.step()).isNull();
        assertThat(second.step()).isNull();
        assertThat(second.isGone()).isTrue();
    }

    private ShadowCopy copy() {
        return new ShadowCopy(
                cfs,
                (TableStore)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {TableStore.class},
                                (proxy, method, arguments) -> null),
                1,
                new LateWrites(),
                () -> new LateWrites.Moment(0, 0));
    }

    /** It may have missed what came since. */
    @Test
    void whatIsToBecomeItsTableIsNoShadowAnyMore() {
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy = copy();
        HollowShadow.has(shadow, copy);
        assertThat(shadow.become(factory)).isTrue();

        shadow.promote();
        assertThat(shadow.become(factory)).isFalse();
        assertThat(shadow.promotedCopy()).isSameAs(copy);
        assertThat(shadow.anew()).contains("is not made anew", "petra.migrations");
        assertThat(copy.isOver()).isFalse();

        // By another ALTER: what was made of it for the one before may lack what came since.
        shadow.promote();
        assertThat(copy.isOver()).isTrue();
    }

    /** Begins a copy, which it cannot here, for want of a directory; or waits. */
    private static void assertStep(Shadow shadow, String state) {
        boolean begins = state.contains("it cannot be made");
        assertThat(shadow.step()).isEqualTo(begins ? Duration.ZERO : ShadowCopy.SOON);
        assertThat(shadow.state()).contains(state);
    }

    /** Else each of them would end a copy that has just begun. */
    @Test
    void noCopyBeginsBetweenCleanupsOfSingleSSTables() {
        HollowShadow.begin(cfs, cfs.metadata());
        HollowShadow.lieIn(cfs);
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy = copy();
        HollowShadow.has(shadow, copy);
        HollowShadow.register(shadow);
        try {
            NodetoolHooks.cleanupOfOne(cfs);
            copy.end("the first was cleaned up");
            NodetoolHooks.afterSSTables(cfs);
            assertStep(shadow, "dropped out: the first was cleaned up");

            // The next one comes when it has almost begun.
            long longAgo = System.nanoTime() - TimeUnit.HOURS.toNanos(1);
            Hollow.set(shadow, Shadow.class, "shrunkAt", longAgo);
            NodetoolHooks.cleanupOfOne(cfs);
            NodetoolHooks.afterSSTables(cfs);
            assertStep(shadow, "dropped out: the first was cleaned up");

            Hollow.set(shadow, Shadow.class, "shrunkAt", longAgo);
            assertStep(shadow, "it cannot be made");
        } finally {
            HollowShadow.unregister(shadow);
        }
    }

    /** Has the table be there, and returns what it has. */
    private SSTableReader begin(Path directory, long bytes) {
        TestTable table =
                TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
        HollowShadow.begin(cfs, table.metadata());
        HollowShadow.lieIn(cfs, directory);
        HollowShadow.takes(cfs, bytes);
        SSTableReader sstable =
                KeyWalkTest.sstable(
                        directory, cfs.metadata, 1, new TreeSet<>(Set.of(table.key("k"))));
        cfs.getTracker().addInitialSSTables(List.of(sstable));
        return sstable;
    }

    /** They may purge deletions that it would have, over what came since they began. */
    @Test
    void aCopyWaitsForCompactionsThatBeganBeforeIt(@TempDir Path directory) {
        SSTableReader sstable = begin(directory, 0);
        LifecycleTransaction compaction =
                cfs.getTracker().tryModify(sstable, OperationType.COMPACTION);
        Shadow shadow = new Shadow(cfs, factory, null);
        Shadow dropped = new Shadow(cfs, factory, null);
        assertStep(shadow, "waits for compactions of the table that began before it");
        assertStep(shadow, "waits for compactions of the table that began before it");
        assertStep(dropped, "waits for compactions of the table that began before it");
        dropped.end();
        assertThat(dropped.step()).isNull();
        compaction.close();
        HollowShadow.lieIn(cfs);
        assertStep(shadow, "it cannot be made");
        sstable.selfRef().release();
    }

    /** It said so hours later. */
    @Test
    void aCopyForWhichThereIsNoRoomDoesNotWait(@TempDir Path directory) {
        SSTableReader sstable = begin(directory, Long.MAX_VALUE / 2);
        LifecycleTransaction compaction =
                cfs.getTracker().tryModify(sstable, OperationType.COMPACTION);
        Shadow shadow = new Shadow(cfs, factory, null);
        for (int i = 0; i < 2; i++) {
            assertThat(shadow.step()).isEqualTo(Duration.ZERO);
            assertThat(shadow.state())
                    .contains("dropped out, again in 30 s", "are kept free for the table");
            Hollow.set(shadow, Shadow.class, "restUntil", System.nanoTime());
        }
        compaction.close();
        sstable.selfRef().release();
    }

    /** A table that is truncated often would have no shadow for as long. */
    @Test
    void aCopyBeginsAtOnceAfterTruncate() {
        HollowShadow.begin(cfs, cfs.metadata());
        HollowShadow.lieIn(cfs);
        Shadow shadow = new Shadow(cfs, factory, null);
        HollowShadow.has(shadow, copy());
        HollowShadow.register(shadow);
        try {
            Shadows.truncationBegins(cfs);
            assertStep(shadow, "dropped out: the table is being truncated");
            Shadows.truncationEnds(cfs);
            assertStep(shadow, "it cannot be made");
        } finally {
            HollowShadow.unregister(shadow);
        }
    }

    /** As of an SSTable that cannot be read: all before it is copied each time. */
    @Test
    void onlyACopyThatHadCaughtUpHasTheNextOneSoon() {
        HollowShadow.begin(cfs, cfs.metadata());
        Shadow shadow = new Shadow(cfs, factory, null);
        assertRest(shadow, copy(), 30);
        assertRest(shadow, copy(), 60);
        assertRest(shadow, copy(), 120);
        ShadowCopy caughtUp = copy();
        caughtUp.resume(List.of(), null);
        assertRest(shadow, caughtUp, 30);
        assertRest(shadow, copy(), 60);
    }

    /** What comes of a fault after two hours. */
    private static void assertRest(Shadow shadow, ShadowCopy copy, int seconds) {
        HollowShadow.has(shadow, copy);
        Hollow.set(shadow, Shadow.class, "beganAt", System.nanoTime() - TimeUnit.HOURS.toNanos(2));
        copy.fault("on purpose");
        assertThat(shadow.step()).isEqualTo(ShadowCopy.SOON);
        assertThat(shadow.state()).isEqualTo("dropped out, again in " + seconds + " s: on purpose");
    }

    private void findDifference(Shadow shadow, ShadowCopy of) {
        shadow.results.count(
                of,
                cfs.decorateKey(ByteBufferUtil.bytes(1)),
                Comparison.Outcome.different("row", "1", ""));
    }

    /** What was copied wrong must neither answer nor become the table for all that. */
    @Test
    void aShadowThatIsMadeAnewHasAnotherCopyAndNoDifferences(@TempDir Path directory) {
        HollowShadow.lieIn(cfs, directory);
        ShadowFolder folder = new ShadowFolder(directory, Disk.REAL);
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy = copy();
        HollowShadow.has(shadow, copy);
        findDifference(shadow, copy);
        shadow.results.count(
                copy, cfs.decorateKey(ByteBufferUtil.bytes(2)), Comparison.Outcome.EQUAL);
        shadow.results.comparison(new ShadowComparison(shadow, copy, "", List.of()));
        assertThat(folder.different()).isEqualTo(1);

        assertThat(shadow.anew()).isNull();
        assertThat(copy.isOver()).isTrue();
        assertThat(shadow.copy()).isNull();
        assertThat(shadow.differences()).isEmpty();
        assertThat(folder.different()).isZero();
        // What is equal was the former copy.
        assertThat(shadow.statistics().equal.sum()).isZero();
        assertThat(shadow.statistics().compared.sum()).isZero();
        assertThat(shadow.comparison()).isNull();

        ShadowCopy next = copy();
        HollowShadow.has(shadow, next);
        // Of a comparison that had read the former one, and was late to count it.
        findDifference(shadow, copy);
        assertThat(shadow.differences()).isEmpty();
        assertThat(folder.different()).isZero();
        assertThat(shadow.doubt(next)).isNull();
        findDifference(shadow, next);
        assertThat(shadow.doubt(next)).isEqualTo("it had another answer than the table");
        assertThat(folder.different()).isEqualTo(1);
    }

    /** That a copy is made anew says nothing of why the former one was wrong. */
    @Test
    void aDifferenceOfACopyThatHasDroppedOutCounts() {
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy = copy();
        copy.fault("for a test");
        findDifference(shadow, copy);
        assertThat(shadow.statistics().different.sum()).isEqualTo(1);
        assertThat(shadow.differences()).hasSize(1);
    }

    /** The SSTables would be written once more then; and here its folder is not known. */
    @Test
    void whatHasBecomeItsTableNeedsNoRoom() {
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy = copy();
        HollowShadow.has(shadow, copy);
        Hollow.set(copy, ShadowCopy.class, "handedOver", true);
        assertThat(shadow.step()).isEqualTo(ShadowCopy.SOON);
        assertThat(copy.isOver()).isFalse();
        // As another would.
        Hollow.set(copy, ShadowCopy.class, "handedOver", false);
        assertThat(shadow.step()).isEqualTo(ShadowCopy.SOON);
        assertThat(copy.isOver()).isTrue();
    }

    /** Those of a shadow that could not note them; here no directory can be found. */
    @Test
    void aShadowHasTheDifferencesOfTheOneBefore() {
        Shadow first = new Shadow(cfs, factory, null);
        for (int i = 0; i < 2; i++)
            first.results.count(
                    copy(),
                    cfs.decorateKey(ByteBufferUtil.bytes(i)),
                    Comparison.Outcome.different("row", "1", ""));
        first.end();
        Shadow second = new Shadow(cfs, factory, first);
        second.recall();
        assertThat(second.statistics().different.sum()).isEqualTo(2);

        second.end();
        second.forget();
        Shadow third = new Shadow(cfs, factory, second);
        third.recall();
        // Whether there are any on disk cannot be read.
        assertThat(third.statistics().different.sum()).isEqualTo(1);
    }

    /** {@code shadow_bytes} and {@code shadow_write_buffer_bytes} of {@code petra.shadow}. */
    @Test
    void whatItTakesOnDiskIsWhatItsDataFilesTake(@TempDir Path directory) throws IOException {
        TestTable table =
                TestTable.of("CREATE TABLE t (k text, c int, v text, PRIMARY KEY (k, c))");
        HollowShadow.begin(cfs, table.metadata());
        Shadow shadow = new Shadow(cfs, factory, null);
        assertThat(shadow.diskBytes()).isZero();
        StorageEngine engine =
                StorageEngines.open("rocks", new EngineSettings(Map.of("memory", "64MiB")));
        try (engine) {
            TableStore store =
                    engine.openStore(table.spec(directory.resolve("1")).withoutDurability());
            ShadowCopy copy =
                    new ShadowCopy(
                            cfs, store, 1, new LateWrites(), () -> new LateWrites.Moment(0, 0));
            HollowShadow.has(shadow, copy);
            Random random = new Random(1);
            for (int i = 0; i < 100; i++)
                // One in ten is so large that it is in a file of its own kind.
                store.write(table.update("k").row(i).set("v", text(random, i % 10 == 0)).build());
            // They are in memory, and in no log.
            assertThat(shadow.diskBytes()).isZero();
            assertThat(shadow.writeBufferBytes()).isGreaterThan(100 << 10);
            store.flush();
            long files = dataFiles(directory.resolve("1"));
            assertThat(files).isGreaterThan(300 << 10);
            // But for what the store notes of itself.
            assertThat(shadow.diskBytes()).isBetween(files - (16 << 10), files);
            shadow.dropOut("on purpose");
            assertThat(shadow.diskBytes()).isZero();
            HollowShadow.has(
                    shadow,
                    new ShadowCopy(
                            cfs, store, 2, new LateWrites(), () -> new LateWrites.Moment(0, 0)));
            assertThat(shadow.diskBytes()).isPositive();
        }
        // Closed with the node.
        assertThat(shadow.diskBytes()).isZero();
        assertThat(shadow.writeBufferBytes()).isZero();
    }

    private static String text(Random random, boolean isLarge) {
        byte[] noise = new byte[isLarge ? 32 << 10 : 1 << 10];
        random.nextBytes(noise);
        return HexFormat.of().formatHex(noise);
    }

    private static long dataFiles(Path store) throws IOException {
        long bytes = 0;
        try (DirectoryStream<Path> files = Files.newDirectoryStream(store, "*.{sst,blob}")) {
            for (Path file : files) bytes += Files.size(file);
        }
        return bytes;
    }
}
