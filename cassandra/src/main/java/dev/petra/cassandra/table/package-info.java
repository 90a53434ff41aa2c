// SPDX-License-Identifier: Apache-2.0
/**
 * The tables that have data in an engine on this node.
 *
 * <p>A table has one {@link dev.petra.cassandra.table.TableGenerations}, which counts its
 * generations: TRUNCATE begins a new one. {@link dev.petra.cassandra.table.LiveGeneration} says
 * which is alive on disk, {@link dev.petra.cassandra.table.EndedGenerations} deletes the others,
 * {@link dev.petra.cassandra.table.TableMigration} is the table's way into the engine or out of it,
 * and {@link dev.petra.cassandra.table.StoreFolders} knows whose the folder on disk is. {@link
 * dev.petra.cassandra.table.TableRegistry} finds them, and other packages see a table's memtable as
 * an {@link dev.petra.cassandra.table.EngineMemtable}.
 */
@NullMarked
package dev.petra.cassandra.table;

import org.jspecify.annotations.NullMarked;
