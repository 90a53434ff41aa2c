// SPDX-License-Identifier: Apache-2.0
/**
 * The tables that have data in an engine on this node.
 *
 * <p>A table has one {@link dev.petra.cassandra.table.TableGenerations}, which counts its
 * generations: TRUNCATE begins a new one. {@link dev.petra.cassandra.table.TableRegistry} finds
 * them, and other packages see a table's memtable as an {@link
 * dev.petra.cassandra.table.EngineMemtable}.
 */
@NullMarked
package dev.petra.cassandra.table;

import org.jspecify.annotations.NullMarked;
