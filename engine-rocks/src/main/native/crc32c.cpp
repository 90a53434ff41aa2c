// SPDX-License-Identifier: Apache-2.0
#include "crc32c.h"

#ifdef __x86_64__

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace {

std::atomic<bool> used;

/** The instruction takes three cycles, for eight bytes as for one. */
__attribute__((target("sse4.2"))) inline uint32_t byProcessor(
        uint32_t crc, const char* data, size_t size) {
    uint64_t state = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, sizeof(word));
        state = __builtin_ia32_crc32di(state, word);
    }
    uint32_t last = static_cast<uint32_t>(state);
    for (; size > 0; data++, size--)
        last = __builtin_ia32_crc32qi(last, static_cast<unsigned char>(*data));
    return ~last;
}

}  // namespace

namespace rocksdb::crc32c {

/**
 * RocksDB's util/crc32c.h. Its library for Java is built for any x86-64, and so has tables for this,
 * of four bytes each: a byte takes seven times as long.
 */
__attribute__((visibility("default"), target("sse4.2"))) uint32_t Extend(
        uint32_t crc, const char* data, size_t size) {
    if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
    return byProcessor(crc, data, size);
}

}  // namespace rocksdb::crc32c

namespace petra {

void offerCrc32c() {
    // From RFC 3720; a wrong one would make logs that nobody can read.
    char zeros[32] = {};
    if (!__builtin_cpu_supports("sse4.2") || crc32c(0, zeros, sizeof(zeros)) != 0x8a9136aa ||
        crc32c(0, "123456789", 9) != 0xe3069283)
        return;
    // A library calls its own functions, too, by their names, and what is found first is called:
    // in global libraries, of which those that Java loads are none, before its own.
    Dl_info self;
    if (dladdr(reinterpret_cast<void*>(&offerCrc32c), &self) != 0)
        dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

bool isCrc32cUsed() { return used.load(std::memory_order_relaxed); }

uint32_t crc32c(uint32_t crc, const char* data, size_t size) {
    return byProcessor(crc, data, size);
}

}  // namespace petra

#else

namespace petra {

// Elsewhere RocksDB looks for the instruction when it is loaded.
void offerCrc32c() {}

bool isCrc32cUsed() { return false; }

uint32_t crc32c(uint32_t, const char*, size_t) { return 0; }

}  // namespace petra

#endif
