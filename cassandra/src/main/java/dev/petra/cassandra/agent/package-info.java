// SPDX-License-Identifier: Apache-2.0
/**
 * Weaves calls of Petra into Cassandra's methods, either with a Java agent when a node starts or
 * ahead of time into Cassandra's jar.
 *
 * <p>{@link dev.petra.cassandra.agent.JoinPoints} is the table of all join points. A join point is
 * a method of Cassandra with an advice: a few lines that Byte Buddy copies into that method and
 * that call {@code dev.petra.cassandra.hooks}. {@link dev.petra.cassandra.agent.PetraAgent} weaves
 * them as Cassandra's classes are loaded, {@link dev.petra.cassandra.agent.Weaver} into a jar. Both
 * look for all methods in Cassandra's class files first: if one is missing, the node does not start
 * and the jar is refused. {@link dev.petra.cassandra.agent.Weaving} tells the start-up checks
 * whether the weaving succeeded. {@link dev.petra.cassandra.agent.Fingerprints} tells whether the
 * methods have the same code as in a release that Petra knows.
 */
@NullMarked
package dev.petra.cassandra.agent;

import org.jspecify.annotations.NullMarked;
