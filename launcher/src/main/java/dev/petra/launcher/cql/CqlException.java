// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

/** A script, a statement or a connection failed. The message is shown without a stack trace. */
public final class CqlException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /**
     * @param message what failed, and where
     */
    public CqlException(String message) {
        super(message);
    }

    /**
     * @param message what failed, and where
     * @param cause for developers
     */
    public CqlException(String message, Throwable cause) {
        super(message, cause);
    }
}
