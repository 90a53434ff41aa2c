// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

/** A script, a statement or a connection failed; the message is all there is to show. */
public final class CqlException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Says what failed, and where. */
    public CqlException(String message) {
        super(message);
    }

    /** The same, where another exception tells a developer more. */
    public CqlException(String message, Throwable cause) {
        super(message, cause);
    }
}
