// SPDX-License-Identifier: Apache-2.0
/**
 * Slices of a live store that go to other nodes, and those of others, which are checked, staged in
 * files of the store's own and ingested. RocksDB never opens a file that a peer made.
 */
@NullMarked
package dev.petra.engine.rocks.stream;

import org.jspecify.annotations.NullMarked;
