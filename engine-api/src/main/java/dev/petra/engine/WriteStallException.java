// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/** A store is too far behind to take a write now. The write was not applied; trying later helps. */
public final class WriteStallException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** With the store and how far behind it is. */
    public WriteStallException(String message) {
        super(message);
    }
}
