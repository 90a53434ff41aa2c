// SPDX-License-Identifier: Apache-2.0
// libFuzzer: whatever bytes come, parsing, merging, purging and renumbering neither crash nor read out of bounds,
// and keep their promises. Input: two values, the length of the first in the first byte pair.
#include <cstdio>
#include <cstdlib>

#include "reconcile.h"

using namespace petra;

namespace {

Scratch scratch, other;

void require(bool holds, const char* promise) {
    if (holds) return;
    fprintf(stderr, "broken promise: %s\n", promise);
    abort();
}

void copy(const Buffer& from, Buffer& to) {
    to.clear();
    to.append(from.begin(), from.size());
}

Slice slice(const Buffer& buffer) { return Slice{buffer.begin(), buffer.size()}; }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    size_t first = (static_cast<size_t>(data[0]) << 8 | data[1]) % (size - 1);
    // Copies of exact size, so that one byte too far is noticed.
    Buffer a, b;
    a.append(data + 2, first < size - 2 ? first : size - 2);
    b.append(data + 2 + a.size(), size - 2 - a.size());
    Slice values[] = {slice(a), slice(b)};

    Buffer merged, again;
    bool fine = merge(values, 2, scratch);
    copy(scratch.out, merged);
    if (!fine)
        require(merged.size() == a.size() + b.size(), "what is malformed stays as it is");

    // A single fragment stands as it is, so the promise begins with the second merge.
    Slice twice[] = {slice(merged), slice(merged)};
    fine = merge(twice, 2, other);
    copy(other.out, merged);
    Slice thrice[] = {slice(merged), slice(merged)};
    merge(thrice, 2, other);
    copy(other.out, again);
    if (fine && again.size() != 2 * merged.size())
        require(slice(again) == slice(merged), "merging is idempotent");

    PurgeLimits limits;
    limits.now = size % 3 == 0 ? 0 : 1000 + static_cast<int64_t>(size);
    limits.gcBefore = 900;
    limits.coverGcBefore = 800;
    limits.maxPurgeable = 1000000;
    PurgeCounts counts;
    Verdict verdict = purge(slice(merged), limits, scratch, &counts);
    if (verdict == Verdict::CHANGE) {
        copy(scratch.out, again);
        Verdict second = purge(slice(again), limits, scratch, &counts);
        require(second == Verdict::KEEP, "purging is idempotent");
    }

    const uint32_t there[] = {2, 0, 3, 1}, back[] = {1, 3, 0, 2};
    Buffer once;
    for (int round = 0; round < 2; round++) {
        if (!renumber(round == 0 ? values[0] : slice(once), there, 4, scratch)) return 0;
        copy(scratch.out, again);
        require(renumber(slice(again), back, 4, scratch), "what is renumbered is well-formed");
        if (round == 1) require(slice(scratch.out) == slice(once), "renumbering can be undone");
        copy(scratch.out, once);
    }
    return 0;
}
