// SPDX-License-Identifier: Apache-2.0
/**
 * Migrates tables into engines and out of them while they are read and written.
 *
 * <p>{@link dev.petra.cassandra.migration.TableLifecycle} begins and ends a migration, under the
 * lock of the registry. {@link dev.petra.cassandra.migration.Migrations} runs all of them on one
 * thread, a step of one after a step of another.
 */
@NullMarked
package dev.petra.cassandra.migration;

import org.jspecify.annotations.NullMarked;
