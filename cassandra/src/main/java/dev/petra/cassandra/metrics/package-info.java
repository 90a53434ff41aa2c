// SPDX-License-Identifier: Apache-2.0
/**
 * What an operator can read: the virtual keyspace {@code petra}, and Cassandra's own metrics of a
 * table with what its engine holds added.
 */
@NullMarked
package dev.petra.cassandra.metrics;

import org.jspecify.annotations.NullMarked;
