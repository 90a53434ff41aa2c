// SPDX-License-Identifier: Apache-2.0
// The processor's CRC-32C in place of RocksDB's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace petra {

/**
 * Has a RocksDB that is loaded from now on compute CRC-32C by the processor's instruction. Does
 * nothing where there is none, or RocksDB uses it itself.
 */
void offerCrc32c();

/** Whether RocksDB has ever computed one so. */
bool isCrc32cUsed();

/** Goes on with a CRC-32C by what was offered; 0 where nothing ever is. */
uint32_t crc32c(uint32_t crc, const char* data, size_t size);

}  // namespace petra
