// SPDX-License-Identifier: Apache-2.0
/**
 * What RocksDB's compaction does not do by itself: purging tombstones after {@code
 * gc_grace_seconds}, pushing deletions of partitions and ranges down to rows, sweeping large cells,
 * merging by time windows, pacing. {@code docs/architecture.md} has the rules of purging with
 * examples.
 */
@NullMarked
package dev.petra.engine.rocks.compaction;

import org.jspecify.annotations.NullMarked;
