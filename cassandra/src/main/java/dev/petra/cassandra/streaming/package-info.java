// SPDX-License-Identifier: Apache-2.0
/**
 * Streams of tables that are in an engine, as slices of the store where the peer has the same
 * engine, and as SSTables elsewhere.
 *
 * <p>This is the side of Cassandra's {@code StreamSession}. The frames, and what is staged before
 * it is ingested, are in {@code dev.petra.streaming}.
 */
@NullMarked
package dev.petra.cassandra.streaming;

import org.jspecify.annotations.NullMarked;
