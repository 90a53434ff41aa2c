// SPDX-License-Identifier: Apache-2.0
/**
 * What Cassandra calls at the join points: one line each in a fork, woven by the agent into stock
 * Cassandra.
 *
 * <p>Each method does nothing for tables that are not in an engine. {@code docs/join-points.md}
 * lists where each is called.
 */
@NullMarked
package dev.petra.cassandra.hooks;

import org.jspecify.annotations.NullMarked;
