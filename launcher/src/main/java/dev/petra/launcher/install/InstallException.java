// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

/** An installation cannot be changed; the message says why, and what to do. */
public final class InstallException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    InstallException(String message) {
        super(message);
    }

    InstallException(String message, Throwable cause) {
        super(message, cause);
    }
}
