// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

/**
 * A database while it is open.
 *
 * @param catalog what was read from it
 * @param files how its files are written
 * @param universal whether it was opened to be compacted by size
 */
record Opened(Database database, Catalog catalog, FileOptions files, boolean universal) {
    /** The same database, whose files are written in another way from now on. */
    Opened writing(FileOptions others) {
        return new Opened(database, catalog, others, universal);
    }
}
