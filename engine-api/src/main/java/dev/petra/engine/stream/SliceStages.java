// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.stream;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * How far each slice of a stream is that a store receives: expected, then being received, then
 * staged; or torn, and expected again. Thread-safe; nobody waits.
 *
 * @param <S> what the store knows of a slice that is staged
 */
public final class SliceStages<S> {
    private enum Stage {
        EXPECTED,
        RECEIVING,
        STAGED
    }

    private final String table;
    private final AtomicReferenceArray<Stage> stages;

    /** The slices that are staged; null for the others. */
    private final AtomicReferenceArray<@Nullable S> staged;

    /**
     * @param table that receives, for messages
     * @param slices how many there are, all of them expected
     */
    public SliceStages(String table, int slices) {
        this.table = table;
        this.stages = new AtomicReferenceArray<>(slices);
        for (int slice = 0; slice < slices; slice++) stages.set(slice, Stage.EXPECTED);
        this.staged = new AtomicReferenceArray<>(slices);
    }

    /**
     * A slice comes. Whoever called this calls {@link #staged} or {@link #torn} at its end, once.
     *
     * @throws IndexOutOfBoundsException if there is no such slice
     * @throws IllegalStateException if it is staged, or being received
     */
    public void begin(int slice) {
        if (!stages.compareAndSet(slice, Stage.EXPECTED, Stage.RECEIVING))
            throw new IllegalStateException("Slice " + slice + " is here already, or coming.");
    }

    /** A slice has come whole. */
    public void staged(int slice, S what) {
        staged.set(slice, what);
        stages.set(slice, Stage.STAGED);
    }

    /** A slice has not come whole; it may come again. */
    public void torn(int slice) {
        stages.set(slice, Stage.EXPECTED);
    }

    /**
     * All slices, in their order.
     *
     * @throws IOException if one is not staged
     */
    public List<S> all() throws IOException {
        List<S> all = new ArrayList<>();
        for (int slice = 0; slice < staged.length(); slice++) {
            S what = staged.get(slice);
            if (what == null)
                throw new IOException("Slice %d for %s: it has not come".formatted(slice, table));
            all.add(what);
        }
        return all;
    }
}
