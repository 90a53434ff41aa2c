// SPDX-License-Identifier: Apache-2.0
/**
 * What a slice of a stream is on the wire; {@code docs/FORMAT.md} has its bytes.
 *
 * <pre>
 *   frame 0  HEAD    what the stream is
 *   frame 1  BLOCK   what the engine sends
 *   …
 *   frame n  END     that this was all
 * </pre>
 *
 * <p>Each slice is one message of Cassandra's streaming and stands alone: the slices of a stream
 * may travel by several connections and arrive in any order.
 */
@NullMarked
package dev.petra.streaming.wire;

import org.jspecify.annotations.NullMarked;
