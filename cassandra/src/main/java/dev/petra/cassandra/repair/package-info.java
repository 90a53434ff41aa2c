// SPDX-License-Identifier: Apache-2.0
/**
 * Repair of tables that are in an engine: the store is validated by Cassandra's own code, so that
 * equal data has equal Merkle trees on any engine.
 */
@NullMarked
package dev.petra.cassandra.repair;

import org.jspecify.annotations.NullMarked;
