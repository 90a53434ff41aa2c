// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

/** A failure that the user can fix. The message is complete: it is shown without a stack trace. */
public final class NodeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * @param message what is wrong, and what to do about it
     */
    public NodeException(String message) {
        super(message);
    }

    /**
     * @param message what is wrong, and what to do about it
     * @param cause for developers
     */
    public NodeException(String message, Throwable cause) {
        super(message, cause);
    }
}
