// SPDX-License-Identifier: Apache-2.0
/**
 * The reference engine: a store held in memory, whose merging and reading are Cassandra's own
 * memtable code. Other engines are compared with it.
 */
package dev.petra.engine.reference;
