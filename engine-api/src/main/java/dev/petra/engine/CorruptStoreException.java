// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import org.jspecify.annotations.Nullable;

/**
 * What is on disk is not what belongs there: damaged, of another table, or of a format that this
 * version does not read. The message names the file or directory and the mend.
 */
public final class CorruptStoreException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** With what is wrong and how to mend it. */
    public CorruptStoreException(String message) {
        this(message, null);
    }

    /** With what is wrong, how to mend it, and the error that showed it. */
    public CorruptStoreException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
