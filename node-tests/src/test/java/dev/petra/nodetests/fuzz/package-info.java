// SPDX-License-Identifier: Apache-2.0
/**
 * Random histories of CQL against two tables of one node, {@code rocks} and Cassandra's own,
 * compared after each step. The classes here run inside the node, as an agent's jar; {@code
 * DifferentialIT} starts it, kills it, and starts it again.
 */
package dev.petra.nodetests.fuzz;
