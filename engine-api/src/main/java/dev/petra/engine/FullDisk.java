// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import com.google.common.base.Throwables;
import org.apache.cassandra.io.FSDiskFullWriteError;
import org.jspecify.annotations.Nullable;

/**
 * The message of the operating system for a full disk: often all that an exception has kept of the
 * error.
 */
public final class FullDisk {
    private FullDisk() {}

    /** Whether a message says that: the disk is full (ENOSPC), or a quota is used up (EDQUOT). */
    public static boolean isSaidBy(@Nullable String message) {
        // "Disk quota exceeded" of glibc, "Quota exceeded" of musl.
        return message != null
                && (message.contains("No space left on device")
                        || message.contains("uota exceeded"));
    }

    /** Whether a failure is that, or one of its causes. */
    public static boolean isCauseOf(Throwable failure) {
        return Throwables.getCausalChain(failure).stream()
                .anyMatch(e -> e instanceof FSDiskFullWriteError || isSaidBy(e.getMessage()));
    }
}
