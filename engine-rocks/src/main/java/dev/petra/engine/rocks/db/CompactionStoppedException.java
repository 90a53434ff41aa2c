// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import org.jspecify.annotations.Nullable;

/** A compaction ended before it was done, because somebody wanted that. */
public final class CompactionStoppedException extends IllegalStateException {
    private static final long serialVersionUID = 1;

    CompactionStoppedException(String table, boolean closing, @Nullable Throwable cause) {
        super(
                closing
                        ? "The store of " + table + " is being closed."
                        : "The compaction of " + table + " was stopped.",
                cause);
    }
}
