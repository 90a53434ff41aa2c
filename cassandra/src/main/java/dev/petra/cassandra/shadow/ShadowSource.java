// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import com.google.common.collect.ImmutableSet;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.lifecycle.SSTableSet;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.jspecify.annotations.Nullable;

/**
 * The shadow of a table that was altered into an engine, for whoever makes it the table's store
 * there. For one thread.
 *
 * <pre>
 *   announce(), of()               when the table was altered
 *   verify(), beginCopy(), copyTo(), open()           while its memtable is Cassandra's
 *   lookFirst(), awaitTold()
 *   beginSwitch(), doubt(), handOver(), endSwitch()   around the switch of the memtable
 *   complete(), awaitTold()        when all writes go to the engine
 *   lacks(), accounted()           before SSTables go
 *   end(), isQuiet()
 * </pre>
 */
public final class ShadowSource {
    private final Shadow shadow;
    private final ShadowCopy copy;

    private ShadowSource(Shadow shadow, ShadowCopy copy) {
        this.shadow = shadow;
        this.copy = copy;
    }

    /**
     * The table's shadow, if it has one, is kept until {@link #end}. Throws nothing and does not
     * block: the caller holds the table's memtables.
     */
    public static void announce(ColumnFamilyStore cfs) {
        Shadows.promote(cfs);
    }

    /**
     * What {@link #announce} has kept; null if the table had no shadow, or that has dropped out.
     */
    public static @Nullable ShadowSource of(ColumnFamilyStore cfs) {
        Shadow shadow = Shadows.promoted(cfs);
        ShadowCopy copy = shadow == null ? null : shadow.promotedCopy();
        return shadow == null || copy == null ? null : new ShadowSource(shadow, copy);
    }

    /** Ends the shadow of a table whose promotion is over, if there is one, and deletes it. */
    public static void end(ColumnFamilyStore cfs) {
        Shadow shadow = Shadows.promoted(cfs);
        if (shadow != null) Shadows.promotionEnds(shadow);
    }

    /** Ends this one and deletes it, unless the table has another by now. */
    public void end() {
        Shadows.promotionEnds(shadow);
    }

    /**
     * Keeps the shadow while the table's memtable is Cassandra's.
     *
     * @param isPrepared whether somebody makes it the table's store, and the table is to be there
     */
    public void prepared(BooleanSupplier isPrepared) {
        shadow.prepared(isPrepared);
    }

    /** Whether it has all that the table has. */
    public boolean isCaughtUp() {
        return copy.isCaughtUp();
    }

    /**
     * Why it may not be what the table is, or may hide what the table shows; null if there is no
     * such doubt. What was written last counts once it was {@link #awaitTold told} of it.
     */
    public @Nullable String doubt() {
        ShadowStore.End end = copy.end();
        if (end != null) return "it has dropped out: " + end.reason();
        if (shadow.copy() != copy) return "it was made anew";
        if (shadow.statistics().different.sum() > 0) return "it had another answer than the table";
        Successor successor = copy.successor();
        String lacking = successor == null ? null : successor.failure();
        return lacking != null ? lacking : shadow.lateWrite();
    }

    /**
     * Reads all its files and checks each block against its checksum. May take hours. Ends early,
     * with an exception, if the shadow does.
     *
     * @param beforeFile called with the bytes of each file before it is read
     * @throws dev.petra.engine.CorruptStoreException naming the first damaged file
     */
    public void verify(LongConsumer beforeFile) {
        copy.store.verify(beforeFile);
    }

    /** What it takes on disk; 0 if not known. */
    public long diskBytes() {
        return shadow.diskBytes();
    }

    /** The directory of the table in which it is. */
    public Path tableDirectory() {
        return shadow.tableDirectory();
    }

    /**
     * Keeps in memory what would be written to it from now on, for {@link #open}. First it writes
     * what it has in memory itself, so that this is soon over.
     */
    public void beginCopy() {
        copy.store.syncLog();
        copy.successor(new Successor(copy::isOver));
    }

    /**
     * Makes a store of all that it has, when all writes of before {@link #beginCopy} are over.
     * Nothing is written twice: its files are linked.
     *
     * @throws RuntimeException if that cannot be; or an {@link org.apache.cassandra.io.FSError}
     */
    public void copyTo(StoreSpec target) {
        shadow.copyTo(copy, target);
    }

    /**
     * Has that store get what was kept, and all that is written from now on.
     *
     * @param check called now and then; what it throws ends this
     */
    public void open(TableStore opened, Runnable check) {
        Successor successor = copy.successor();
        if (successor != null) successor.open(opened, check);
    }

    /** From now on writes are looked at before they go to the table. */
    public void lookFirst() {
        copy.lookFirst();
    }

    /**
     * Waits until all writes that have begun by now are in the table, and it was told of them.
     *
     * @param check called now and then; what it throws ends this
     * @return false if it was not within the time, or the thread was interrupted
     */
    public boolean awaitTold(Duration patience, Runnable check) {
        Keyspace.writeOrder.awaitNewBarrier();
        BooleanSupplier told = copy.toldOfAll();
        long deadline = System.nanoTime() + patience.toNanos();
        while (!told.getAsBoolean()) {
            check.run();
            if (System.nanoTime() - deadline > 0) return false;
            try {
                TimeUnit.MILLISECONDS.sleep(1);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                return false;
            }
        }
        return true;
    }

    /** The table's SSTables, those that are being compacted and not what comes of it. */
    public static Set<SSTableReader> sstables(ColumnFamilyStore cfs) {
        return ImmutableSet.copyOf(cfs.getTracker().getView().select(SSTableSet.CANONICAL));
    }

    /**
     * Before {@link #doubt} is asked for the last time: late writes wait for {@link #endSwitch}.
     */
    public void beginSwitch() {
        copy.beginSwitch();
    }

    /** When the table's memtable was switched, or is not. Idempotent. */
    public void endSwitch() {
        copy.endSwitch();
    }

    /**
     * Hands it over, if the table has these SSTables and it has all of them.
     *
     * @return false if not, and nothing has changed then
     */
    public boolean handOver(Set<SSTableReader> sstables) {
        return sstables(shadow.cfs).equals(sstables) && copy.handOver(sstables);
    }

    /** Whether it was handed over. */
    public boolean isHandedOver() {
        return copy.isHandedOver();
    }

    /** All that is written from now on goes to the engine: it needs no more. */
    public void complete() {
        copy.complete();
    }

    /** Whether it has ended. */
    public boolean isOver() {
        return copy.isOver();
    }

    /**
     * Whether it has ended, and nothing comes from it any more to what was made of it. Stays so.
     */
    public boolean isQuiet() {
        return copy.isQuiet();
    }

    /** Why the table's store may lack something of {@link #accounted}; null if it does not. */
    public @Nullable String lacks() {
        ShadowStore.End end = copy.end();
        if (end != null) return "the shadow has dropped out: " + end.reason();
        Successor successor = copy.successor();
        return successor == null ? "nothing was copied" : successor.failure();
    }

    /** Those of these SSTables of which all is in what was handed over. */
    public Set<SSTableReader> accounted(Set<SSTableReader> sstables) {
        return copy.accounted(sstables);
    }

    /** What was begun is not gone on with: it lacks what was written since. Idempotent. */
    public void abandon() {
        copy.end("it did not become its table");
        Successor successor = copy.successor();
        if (successor != null) successor.fail("it was not gone on with");
        copy.endSwitch();
    }
}
