// SPDX-License-Identifier: Apache-2.0
/**
 * The native part, and how it is loaded: RocksDB's library and ours, with the merge operator and
 * the compaction filters that reconcile fragments inside RocksDB. {@code src/main/native} has the
 * code.
 */
@NullMarked
package dev.petra.engine.rocks.nativelib;

import org.jspecify.annotations.NullMarked;
