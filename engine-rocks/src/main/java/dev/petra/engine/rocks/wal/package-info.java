// SPDX-License-Identifier: Apache-2.0
/**
 * The write-ahead logs of RocksDB: when they are synced, up to where they are durable, and whether
 * they are whole before RocksDB replays them.
 */
@NullMarked
package dev.petra.engine.rocks.wal;

import org.jspecify.annotations.NullMarked;
