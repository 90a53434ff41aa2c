// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * A store is too far behind to take a write now, or its disk is full. The write was not applied;
 * trying later helps.
 */
public final class WriteStallException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final boolean isDiskFull;

    /** With the store and how far behind it is. */
    public WriteStallException(String message) {
        this(message, false);
    }

    /**
     * With the store and what it waits for.
     *
     * @param isDiskFull whether that is room on the disk
     */
    public WriteStallException(String message, boolean isDiskFull) {
        this(message, isDiskFull, true);
    }

    private WriteStallException(String message, boolean isDiskFull, boolean hasStackTrace) {
        super(message, null, true, hasStackTrace);
        this.isDiskFull = isDiskFull;
    }

    /** For what may be thrown a thousand times a second: the host logs each. */
    public static WriteStallException withoutStackTrace(String message) {
        return new WriteStallException(message, false, false);
    }

    /** Whether it takes writes again only when somebody has freed space. */
    public boolean isDiskFull() {
        return isDiskFull;
    }
}
