// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

/**
 * What a store's data files hold, by their own account.
 *
 * @param files how many there are
 * @param uncompressedBytes of keys and values
 * @param compressedBytes the same, as they lie on disk
 * @param filterBytes of bloom filters, on disk
 */
public record FileStatistics(
        long files, long uncompressedBytes, long compressedBytes, long filterBytes) {
    /** The statistics of a store without files. */
    public static final FileStatistics NONE = new FileStatistics(0, 0, 0, 0);
}
