// SPDX-License-Identifier: Apache-2.0
/**
 * What {@code nodetool} asks of a table that is in an engine: the engine does it, or it is refused
 * with the reason.
 */
@NullMarked
package dev.petra.cassandra.nodetool;

import org.jspecify.annotations.NullMarked;
