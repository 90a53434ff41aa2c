// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * What lies in a range of tokens, estimated.
 *
 * @param partitions how many partitions
 * @param meanPartitionBytes how large one is on disk, on average; 0 if there are none
 */
public record RangeEstimate(long partitions, long meanPartitionBytes) {}
