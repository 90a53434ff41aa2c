// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * Metrics of one engine, read at one moment.
 *
 * @param openStores stores open now
 * @param memoryBudgetBytes the native memory it may use for caches and write buffers
 * @param cacheBytes native bytes of cached blocks
 * @param writeBufferBytes native bytes of write buffers
 */
public record EngineStatistics(
        int openStores, long memoryBudgetBytes, long cacheBytes, long writeBufferBytes) {}
