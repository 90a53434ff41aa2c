// SPDX-License-Identifier: Apache-2.0
/**
 * What a stream of parts is on the wire; {@code docs/FORMAT.md} has its bytes.
 *
 * <pre>
 *   frame  manifest, piece 1 of n   its bytes
 *   …
 *   frame  part 1 of m              its bytes
 *   frame  part 2 of m              its bytes
 * </pre>
 *
 * <p>The manifest is sent once, ahead of the part that is sent first and by its connection. Parts
 * may travel by several connections and arrive in any order, also before the manifest; each names
 * its manifest by that's digest.
 */
@NullMarked
package dev.petra.streaming.wire;

import org.jspecify.annotations.NullMarked;
