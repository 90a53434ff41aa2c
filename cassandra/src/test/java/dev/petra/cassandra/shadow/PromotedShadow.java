// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.shadow.DoubledWrites.Doubled;
import dev.petra.engine.StoreStatistics;
import dev.petra.engine.TableStore;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.LongConsumer;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.partitions.PartitionUpdate;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.jspecify.annotations.Nullable;

/**
 * The shadow of a table that was altered into its engine, without a node, until this is closed. It
 * has all of the table.
 */
public final class PromotedShadow implements AutoCloseable {
    public static final int FILES = 3;
    public static final long FILE_BYTES = 1_000;

    private final ColumnFamilyStore cfs;
    private final Shadow shadow;
    private final ShadowCopy copy;
    private final List<String> calls = new CopyOnWriteArrayList<>();

    private Runnable afterFile = () -> {};

    public PromotedShadow(ColumnFamilyStore cfs) {
        this.cfs = cfs;
        TableStore store =
                Hollow.proxy(
                        TableStore.class,
                        (self, method, arguments) -> {
                            calls.add(method.getName());
                            return switch (method.getName()) {
                                case "statistics" ->
                                        new StoreStatistics(
                                                0, 0, 0, FILES * FILE_BYTES, 0, 0, 0, 0);
                                case "verify" -> verify((LongConsumer) arguments[0]);
                                default -> null;
                            };
                        });
        copy = new ShadowCopy(cfs, store, 1, new LateWrites(), () -> new LateWrites.Moment(0, 10));
        copy.resume(List.of(), null);
        shadow = HollowShadow.of(cfs, false);
        HollowShadow.has(shadow, copy);
        HollowShadow.register(shadow);
        ShadowSource.announce(cfs);
    }

    private @Nullable Object verify(LongConsumer beforeFile) {
        for (int file = 0; file < FILES; file++) {
            beforeFile.accept(FILE_BYTES);
            afterFile.run();
        }
        return null;
    }

    /** What to do whenever one of its files is to be read. */
    public void afterFile(Runnable action) {
        afterFile = action;
    }

    /** For whoever makes it the table's store. */
    public ShadowSource source() {
        return Objects.requireNonNull(ShadowSource.of(cfs));
    }

    /** The methods of its store that were called. */
    public List<String> calls() {
        return calls;
    }

    /** Whether it has ended. */
    public boolean isOver() {
        return copy.isOver();
    }

    /** Has it have all that the table has, or lack some. */
    public void isCaughtUp(boolean isSo) {
        Hollow.set(copy, ShadowCopy.class, "caughtUp", isSo);
    }

    /** Begins a write; what it returns ends that. */
    public Runnable beginWrite() {
        PartitionUpdate update =
                PartitionUpdate.fullPartitionDelete(cfs.metadata(), ByteBufferUtil.bytes(1), 1, 1);
        Doubled begun = Doubled.begin(copy, update);
        return begun::end;
    }

    @Override
    public void close() {
        HollowShadow.unregister(shadow);
    }
}
