// SPDX-License-Identifier: Apache-2.0
/**
 * The storage engines of this process: which are open, with which settings, and their metrics.
 *
 * <p>An engine is opened when its memtable configuration is first read. Its settings are the
 * parameters of that configuration, and what {@code cassandra.yaml} says of the commit log and of
 * compaction.
 */
@NullMarked
package dev.petra.cassandra.engine;

import org.jspecify.annotations.NullMarked;
