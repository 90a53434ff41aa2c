// SPDX-License-Identifier: Apache-2.0
// Merges and purges values. No state, no clock; docs/architecture.md has the rules.
#pragma once

#include "fragment.h"

namespace petra {

/** Memory that one thread reuses from one value to the next. */
struct Scratch {
    Row oldest, rest, few, next, merged;
    Array<Cell> slot;
    /** Counter contexts that merging made; blocks do not move. */
    Array<uint8_t*> contexts;
    Buffer out;
    /** For who merges: what is merged. */
    Array<Slice> operands;
    /** Whether a counter met a cell that is none. */
    bool mixed = false;
    /** Whether merging made a counter of more shards than it reads again. */
    bool manyShards = false;

    ~Scratch();
    /** To be called before each value. */
    void begin();
    /** To be called behind the last value for now: what is kept from then on is little. */
    void end();
    /** How much memory it keeps. */
    size_t bytes() const;

private:
    void trim(size_t mostColumns, size_t mostCells, size_t mostBytes);
};

/** What may go. Times in seconds, the max purgeable timestamp in microseconds. */
struct PurgeLimits {
    int64_t now = 0;             // 0: unknown, nothing is expired
    int64_t gcBefore = 0;        // local times before it are past their grace; 0: none is
    int64_t coverGcBefore = 0;   // the same for what covers other keys
    int64_t maxPurgeable = INT64_MIN;   // only timestamps below it
    bool loosePaths = false;     // whether paths that differ in bytes may be one to Cassandra
    Deletion cover;              // of the partition, which stays: what it hides goes, however young

    bool purges(int64_t timestamp, int64_t localTime) const {
        return localTime < gcBefore && timestamp < maxPurgeable;
    }
    bool purgesCover(int64_t timestamp, int64_t localTime) const {
        return localTime < coverGcBefore && timestamp < maxPurgeable;
    }
};

/** What was done to a value, or could be. */
struct PurgeCounts {
    uint64_t purged = 0;
    uint64_t expired = 0;
    int64_t kept = INT64_MAX;  // lowest local time of what could go later
    bool ranges = false;       // whether the record of a partition says no more that it has some
};

/**
 * Merges values, oldest first, each of one or more fragments, into scratch.out: to one fragment, or
 * one behind the other where rules or bytes do not allow more.
 *
 * @return false if some bytes are malformed; scratch.out has them all the same
 */
bool merge(const Slice* values, size_t count, Scratch& scratch);

/** In place of what a column's id becomes, as Catalog.NO_COLUMN in Java. */
constexpr uint32_t NO_COLUMN = UINT32_MAX;

/**
 * Rewrites a value for a store that has other ids of columns, into scratch.out.
 *
 * @param ids what each column's id becomes; NO_COLUMN for none
 * @return false if bytes are malformed, or a column has none
 */
bool renumber(Slice value, const uint32_t* ids, size_t count, Scratch& scratch);

/**
 * Of many values: microseconds of what was written, when all of it may go, and how much of it may
 * go when. All fields are of 8 bytes each: Java has them as one array.
 */
struct Extent {
    static constexpr int BUCKETS = 16;

    /** Bytes that may go once a local time is past its grace, where nothing as old is elsewhere. */
    struct Bucket {
        int64_t localTime;
        int64_t highest;  // timestamp
        int64_t bytes;
    };

    int64_t lowest = INT64_MAX;
    int64_t highest = INT64_MIN;
    int64_t end = INT64_MIN;  // seconds: the highest local time; INT64_MAX if something stays
    int64_t bytes = 0;        // of keys and values
    int64_t entries = 0;
    int64_t deletions = 0;    // of these: deletions of a row or a partition, and nothing else
    int64_t coverBytes = 0;   // of records of partitions that go one day
    int64_t coverFrom = INT64_MAX;  // seconds: the lowest local time of one
    int64_t rangeFrom = INT64_MAX;  // seconds: the lowest local time of a range tombstone
    int64_t headBytes = 0;    // of the partition that the first key is in the middle of
    int64_t headHighest = INT64_MIN;  // its highest timestamp; INT64_MAX if nothing hides all of it
    int64_t count = 0;        // of buckets
    Bucket buckets[BUCKETS];  // by local time
    /** Of each: by how many seconds times bytes it is later than what it was made of. */
    double late[BUCKETS];

    /** Never counts what could go as if it could go earlier, or above fewer timestamps. */
    void add(int64_t localTime, int64_t timestamp, int64_t size);
};

/**
 * A partition and its deletion, which hides what comes behind it. Plain memory, for there is no C++
 * runtime that would end it with its thread: whoever has one releases it.
 */
struct Covering {
    uint8_t* partition;  // what all keys of it begin with
    size_t size;         // 0: none
    Deletion deletion;

    /** Of each entry, in the order of their keys: a record of a partition is what comes first. */
    void meet(Slice key, Slice value);
    bool isOf(Slice key) const {
        return size > 0 && key.size > size && memcmp(key.data, partition, size) == 0;
    }
    void release();
};

/**
 * Adds an entry.
 *
 * @param loosePaths whether paths that differ in bytes may be one to Cassandra
 * @param cover the deletion of its partition, if it is known; that stays
 * @param isHead whether it is of the partition that the first key is in the middle of
 * @return false if bytes are malformed
 */
bool extend(
        Slice key, Slice value, bool loosePaths, const Deletion& cover, bool isHead,
        Scratch& scratch, Extent* extent);

enum class Verdict { KEEP, CHANGE, REMOVE, MALFORMED };

/** Purges a value; the new one is in scratch.out if the verdict is CHANGE. */
Verdict purge(Slice value, const PurgeLimits& limits, Scratch& scratch, PurgeCounts* counts);

}  // namespace petra
