// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import org.jspecify.annotations.Nullable;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.StringAppendOperator;

/** Stand-in until the native part is there. */
final class Reconciler implements AutoCloseable {
    private final StringAppendOperator operator = new StringAppendOperator("");
    private int active;

    Reconciler(String table) {}

    void install(Options options, boolean strictSuccessiveMerges) {
        options.setMergeOperator(operator);
    }

    static void allowUnpreparedValue(ReadOptions options) {}

    void clock(long nowSeconds, long gcBefore) {}

    void covers(long gcBefore) {}

    void floor(int index, long micros) {}

    void lowerFloors(long micros) {}

    void activeFloor(int index) {
        active = index;
    }

    int activeFloor() {
        return active;
    }

    long purged() {
        return 0;
    }

    long leftovers() {
        return 0;
    }

    long kept() {
        return Long.MAX_VALUE;
    }

    void resetKept() {}

    byte @Nullable [] takeMalformed() {
        return null;
    }

    @Override
    public void close() {
        operator.close();
    }
}
