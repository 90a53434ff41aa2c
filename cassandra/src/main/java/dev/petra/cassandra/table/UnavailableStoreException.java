// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

/**
 * A table's store could not be opened, so that nothing can be read from the table or written to it.
 * The message names the table and carries what was wrong; other tables are not affected.
 */
final class UnavailableStoreException extends RuntimeException {
    private static final long serialVersionUID = 1;

    UnavailableStoreException(String table, Throwable reason) {
        super("Table " + table + " is not available on this node: " + reason.getMessage(), reason);
    }
}
