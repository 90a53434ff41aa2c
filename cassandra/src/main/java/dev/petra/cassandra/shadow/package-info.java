// SPDX-License-Identifier: Apache-2.0
/**
 * Tables of Cassandra's own storage whose writes an engine gets as well, in a <em>shadow</em>, so
 * that answers of the two can be compared before anything depends on the engine.
 *
 * <p>{@link dev.petra.cassandra.shadow.Shadows} knows the tables; {@link
 * dev.petra.cassandra.shadow.Shadow} has one {@link dev.petra.cassandra.shadow.ShadowCopy} after
 * another made of its table: each lasts until it has missed something. {@code
 * docs/shadow-design.md} says why an answer of the two is of one moment.
 */
@NullMarked
package dev.petra.cassandra.shadow;

import org.jspecify.annotations.NullMarked;
