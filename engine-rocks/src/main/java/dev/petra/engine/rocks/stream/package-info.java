// SPDX-License-Identifier: Apache-2.0
/**
 * Ranges of a store as sst files that go to other nodes, and files of others that are checked,
 * written anew and ingested. RocksDB never opens a file that a peer made.
 */
@NullMarked
package dev.petra.engine.rocks.stream;

import org.jspecify.annotations.NullMarked;
