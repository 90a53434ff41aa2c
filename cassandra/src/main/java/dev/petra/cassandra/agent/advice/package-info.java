// SPDX-License-Identifier: Apache-2.0
/**
 * Code that the agent or the weaver copies into methods of Cassandra: a few lines each, which call
 * one method of {@code dev.petra.cassandra.hooks}.
 *
 * <p>None of it is called here, and the agent names these classes by strings: a loaded advice class
 * would load the classes of Cassandra in its signatures.
 */
@NullMarked
package dev.petra.cassandra.agent.advice;

import org.jspecify.annotations.NullMarked;
