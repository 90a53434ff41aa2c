// SPDX-License-Identifier: Apache-2.0
/**
 * Weaves into stock Cassandra the lines that a fork would write: by a Java agent, or into the jar.
 *
 * <p>{@link dev.petra.cassandra.agent.JoinPoints} lists them all. Each is a method of Cassandra and
 * an advice, a few lines that Byte Buddy copies into that method and that call one method of {@code
 * dev.petra.cassandra.hooks}. {@link dev.petra.cassandra.agent.PetraAgent} does that while classes
 * are loaded, and {@link dev.petra.cassandra.agent.Weaver} in a jar, from the same table. All are
 * checked against Cassandra's class files before a class of Cassandra is loaded, and a node in
 * which one is missing does not start. {@link dev.petra.cassandra.agent.Weaving} tells the start-up
 * checks what came of it; {@link dev.petra.cassandra.agent.Fingerprints} know the methods of
 * releases.
 */
@NullMarked
package dev.petra.cassandra.agent;

import org.jspecify.annotations.NullMarked;
