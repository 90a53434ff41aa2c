// SPDX-License-Identifier: Apache-2.0
/**
 * The RocksDB engine behind the SPI: what all stores of a process share, one store per table
 * generation, and what is done to stores in the background. Others use the engine by its provider
 * only; the packages below are public to each other, not to other modules.
 *
 * <p>Each package knows those below it, and none above: {@code stream}, {@code compaction}, {@code
 * index}, {@code write}, {@code read}, {@code db}, {@code wal}, {@code nativelib}, {@code format}.
 */
@NullMarked
package dev.petra.engine.rocks;

import org.jspecify.annotations.NullMarked;
