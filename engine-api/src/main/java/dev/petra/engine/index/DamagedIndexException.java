// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

/**
 * The entries of an index cannot be read, for instance because bytes on disk are wrong. The rows
 * are not damaged. No index of the store is defined from then on, after a restart neither: each can
 * be defined again, and is empty then.
 */
public final class DamagedIndexException extends RuntimeException {
    private static final long serialVersionUID = 1;

    public DamagedIndexException(String message, Throwable cause) {
        super(message, cause);
    }
}
