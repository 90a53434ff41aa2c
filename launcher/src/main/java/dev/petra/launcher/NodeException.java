// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

/** Something its user can mend stands in a node's way; the message is all there is to show. */
public final class NodeException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Says what is wrong, and what to do about it. */
    public NodeException(String message) {
        super(message);
    }

    /** The same, where another exception tells a developer more. */
    public NodeException(String message, Throwable cause) {
        super(message, cause);
    }
}
