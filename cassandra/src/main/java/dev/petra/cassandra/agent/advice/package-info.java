// SPDX-License-Identifier: Apache-2.0
/**
 * Code that the agent or the weaver copies into methods of Cassandra: a few lines for each join
 * point, which call {@code dev.petra.cassandra.hooks}.
 *
 * <p>These classes are never called and never loaded: loading one would load the classes of
 * Cassandra in its signatures before they can be woven. The agent finds them by their names.
 */
@NullMarked
package dev.petra.cassandra.agent.advice;

import org.jspecify.annotations.NullMarked;
