// SPDX-License-Identifier: Apache-2.0
// Fragments of values: parsed and written. docs/FORMAT.md has the tables, Fragments.java the same
// constants for Java.
#pragma once

#include "bytes.h"

namespace petra {

enum Kind : uint8_t { ROW = 0, PARTITION = 1, RANGE = 2 };

constexpr uint8_t KIND_MASK = 0x03;
constexpr uint8_t ROW_LIVENESS = 0x04;
constexpr uint8_t ROW_EXPIRING = 0x08;
constexpr uint8_t ROW_DELETION = 0x10;
constexpr uint8_t ROW_SHADOWABLE = 0x20;
constexpr uint8_t ROW_CLUSTERING = 0x40;
constexpr uint8_t ROW_UNKNOWN = 0x80;
constexpr uint8_t PARTITION_DELETION = 0x04;
constexpr uint8_t PARTITION_HAS_RANGES = 0x08;
constexpr uint8_t PARTITION_RANGES = 0x10;
constexpr uint8_t PARTITION_UNKNOWN = 0xE0;
constexpr uint8_t RANGE_BOUNDS = 0x04;
constexpr uint8_t RANGE_UNKNOWN = 0xF8;
constexpr uint8_t COLUMN_COMPLEX = 0x01;
constexpr uint8_t COMPLEX_DELETION = 0x01;
constexpr uint8_t CELL_VALUE = 0x01;
constexpr uint8_t CELL_TOMBSTONE = 0x02;
constexpr uint8_t CELL_EXPIRING = 0x04;
constexpr uint8_t CELL_TIMESTAMP = 0x08;
constexpr uint8_t CELL_ROW_EXPIRY = 0x10;
constexpr uint8_t CELL_COUNTER = 0x20;
constexpr uint8_t CELL_LARGE = 0x40;
constexpr uint8_t CELL_UNKNOWN = 0x80;

/** The local time of what is not deleted and does not expire; above all others, as in Cassandra. */
constexpr uint32_t NEVER = 0xFFFFFFFF;
constexpr int64_t NO_TIMESTAMP = INT64_MIN;
constexpr uint32_t EXPIRED_LIVENESS_TTL = INT32_MAX;

struct Deletion {
    int64_t timestamp = NO_TIMESTAMP;
    uint32_t localTime = NEVER;

    bool live() const { return timestamp == NO_TIMESTAMP && localTime == NEVER; }
    bool supersedes(const Deletion& o) const {
        return timestamp > o.timestamp || (timestamp == o.timestamp && localTime > o.localTime);
    }
    bool deletes(int64_t t) const { return t <= timestamp; }
};

struct Liveness {
    int64_t timestamp = NO_TIMESTAMP;
    uint32_t ttl = 0;
    uint32_t expiration = NEVER;

    bool empty() const { return timestamp == NO_TIMESTAMP; }
    bool expiring() const { return ttl != 0; }
    bool supersedes(const Liveness& o) const;
};

struct Cell {
    int64_t timestamp;
    uint32_t ttl;        // 0: does not expire
    uint32_t localTime;  // NEVER: neither expires nor is a tombstone
    bool counter;
    bool large;   // value is the hash, 8 bytes
    Slice value;
    Slice path;   // of complex columns
    uint32_t order;  // among those parsed with it

    bool tombstone() const { return localTime != NEVER && ttl == 0; }
    bool expiring() const { return ttl != 0; }
};

struct Column {
    uint64_t number;  // id << 1 | complex
    Deletion deletion;
    uint32_t first;  // of its cells: by path, which may come more than once; of simple ones no path
    uint32_t count;

    bool complex() const { return (number & COLUMN_COMPLEX) != 0; }
};

/** A row, or the row that several fragments make. Points into the bytes it was parsed from. */
struct Row {
    Liveness liveness;
    Deletion deletion;
    bool shadowable = false;
    bool counters = false;
    bool hasClustering = false;
    Slice clustering;
    Array<Column> columns;
    Array<Cell> cells;

    void clear();
    bool empty() const { return liveness.empty() && deletion.live() && columns.size() == 0; }
    void swap(Row& o);
    /** Frees memory above that of so many columns and cells, and then what they were. */
    void trim(size_t mostColumns, size_t mostCells);
    size_t bytes() const { return columns.bytes() + cells.bytes(); }
};

struct PartitionRecord {
    Deletion deletion;
    bool hasRanges = false;
    bool hasHighest = false;
    int64_t highestTimestamp = NO_TIMESTAMP;
    uint32_t highestLocalTime = 0;
};

struct RangeRecord {
    Deletion deletion;
    bool hasBounds = false;
    Slice bounds;
};

/**
 * Cuts the next fragment off.
 *
 * @return false at the end and if it is malformed: then the reader is not ok
 */
bool nextFragment(Reader& in, uint8_t* head, Reader* body);

/** Each is strict: what Java would not read, or not read the same, is refused. */
bool parseRow(uint8_t head, Reader body, Row* row);
bool parsePartition(uint8_t head, Reader body, PartitionRecord* record);
bool parseRange(uint8_t head, Reader body, RangeRecord* record);

/** Append one fragment each, as FragmentWriter would write it. */
void writeRow(const Row& row, Buffer& out);
void writePartition(const PartitionRecord& record, Buffer& out);
void writeRange(const RangeRecord& record, Buffer& out);

}  // namespace petra
