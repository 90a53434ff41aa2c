// SPDX-License-Identifier: Apache-2.0
/**
 * The files of the host beside those of an engine: which generation of a table is live, whether the
 * table is being migrated, and what must not be deleted.
 *
 * <p>Each is replaced durably, so that a crash leaves the old content or the new one. The names and
 * contents of these files do not change between versions.
 */
@NullMarked
package dev.petra.cassandra.disk;

import org.jspecify.annotations.NullMarked;
