// SPDX-License-Identifier: Apache-2.0
/**
 * The Java agent: weaves into stock Cassandra the lines that a fork would write.
 *
 * <p>{@link dev.petra.cassandra.agent.JoinPoints} lists them all. Each is a method of Cassandra and
 * an advice, a few lines that Byte Buddy copies into that method and that call one method of {@code
 * dev.petra.cassandra.hooks}. All are checked against Cassandra's class files before a class of
 * Cassandra is loaded, and a node in which one is missing does not start.
 */
@NullMarked
package dev.petra.cassandra.agent;

import org.jspecify.annotations.NullMarked;
