// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.jspecify.annotations.Nullable;

/**
 * A compaction or verification ended before it was done, because somebody wanted that or kept it
 * from its end.
 */
public final class CompactionStoppedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    public CompactionStoppedException(String message) {
        super(message);
    }

    CompactionStoppedException(
            String what, String table, boolean closing, @Nullable Throwable cause) {
        super(
                closing
                        ? "The store of " + table + " is being closed."
                        : "The " + what + " of " + table + " was stopped.",
                cause);
    }
}
