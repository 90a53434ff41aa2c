// SPDX-License-Identifier: Apache-2.0
#include "fragment.h"

#include <algorithm>

namespace petra {

bool Liveness::supersedes(const Liveness& o) const {
    if (timestamp != o.timestamp) return timestamp > o.timestamp;
    bool expired = ttl == EXPIRED_LIVENESS_TTL;
    bool otherExpired = o.ttl == EXPIRED_LIVENESS_TTL;
    if (expired != otherExpired) return expired;
    if (expiring() == o.expiring())
        return expiration > o.expiration || (expiration == o.expiration && ttl < o.ttl);
    return expiring();
}

void Row::clear() {
    liveness = Liveness{};
    deletion = Deletion{};
    shadowable = counters = hasClustering = false;
    clustering = Slice{};
    columns.clear();
    cells.clear();
}

void Row::swap(Row& o) {
    std::swap(liveness, o.liveness);
    std::swap(deletion, o.deletion);
    std::swap(shadowable, o.shadowable);
    std::swap(counters, o.counters);
    std::swap(hasClustering, o.hasClustering);
    std::swap(clustering, o.clustering);
    columns.swap(o.columns);
    cells.swap(o.cells);
}

void Row::trim(size_t mostColumns, size_t mostCells) {
    columns.trim(mostColumns);
    cells.trim(mostCells);
}

bool nextFragment(Reader& in, uint8_t* head, Reader* body) {
    if (!in.more()) return false;
    *head = in.byte();
    uint32_t length = in.length();
    *body = in.part(length);
    return in.ok();
}

namespace {

/** A row's clustering, or a bound: number of values, then length + 1 (0: null) and bytes of each. */
Slice readPrefix(Reader& in) {
    const uint8_t* from = in.at();
    uint32_t count = in.length();
    for (uint32_t i = 0; i < count && in.ok(); i++) {
        uint32_t length = in.length();
        if (length != 0) in.bytes(length - 1);
    }
    return Slice{from, static_cast<size_t>(in.at() - from)};
}

Deletion readDeletion(Reader& in, int64_t base) {
    Deletion deletion;
    deletion.timestamp = plus(base, in.zigzag());
    deletion.localTime = in.fixed32();
    // Nothing is written at this timestamp: it stands for none.
    if (deletion.timestamp == NO_TIMESTAMP) in.fail();
    return deletion;
}

Deletion readFixedDeletion(Reader& in) {
    Deletion deletion;
    deletion.timestamp = static_cast<int64_t>(in.fixed64());
    deletion.localTime = in.fixed32();
    return deletion;
}

void readCell(Reader& in, int64_t base, Row* row, Slice path) {
    uint8_t flags = in.byte();
    Cell cell{};
    cell.path = path;
    cell.timestamp = base;
    cell.localTime = NEVER;
    cell.order = static_cast<uint32_t>(row->cells.size());
    bool tombstone = (flags & CELL_TOMBSTONE) != 0;
    bool expiring = (flags & CELL_EXPIRING) != 0;
    cell.counter = (flags & CELL_COUNTER) != 0;
    cell.large = (flags & CELL_LARGE) != 0;
    if ((flags & CELL_UNKNOWN) != 0 || (tombstone && expiring)) in.fail();
    if ((flags & CELL_ROW_EXPIRY) != 0 && !(expiring && row->liveness.expiring())) in.fail();
    // Cassandra's counters have neither an expiry nor, once deleted, a context.
    if (cell.counter && (tombstone || expiring || cell.large)) in.fail();
    if (cell.large && (tombstone || (flags & CELL_VALUE) != 0)) in.fail();
    if ((flags & CELL_TIMESTAMP) != 0) cell.timestamp = plus(base, in.zigzag());
    if (cell.timestamp == NO_TIMESTAMP) in.fail();
    if ((flags & CELL_ROW_EXPIRY) != 0) {
        cell.ttl = row->liveness.ttl;
        cell.localTime = row->liveness.expiration;
    } else {
        if (expiring) cell.ttl = in.length();
        if (expiring || tombstone) cell.localTime = in.fixed32();
    }
    if (expiring && cell.ttl == 0) in.fail();
    if ((expiring || tombstone) && cell.localTime == NEVER) in.fail();
    if ((flags & CELL_VALUE) != 0) {
        cell.value = in.bytes(in.length());
        // An empty value has no flag.
        if (cell.value.size == 0) in.fail();
    }
    if (cell.large) cell.value = in.bytes(8);
    row->counters |= cell.counter;
    row->cells.push(cell);
}

bool byPath(const Cell& a, const Cell& b) {
    int order = compare(a.path, b.path);
    return order != 0 ? order < 0 : a.order < b.order;
}

/** Into the order of bytes: Java writes them in that of the column's type. */
void sortByPath(Row* row, Column& column) {
    Cell* from = row->cells.begin() + column.first;
    Cell* to = from + column.count;
    if (!std::is_sorted(from, to, byPath)) std::sort(from, to, byPath);
}

void readColumn(Reader& in, int64_t base, Row* row) {
    Column column{};
    column.number = in.length();
    column.deletion = Deletion{};
    column.first = static_cast<uint32_t>(row->cells.size());
    if (row->columns.size() > 0) {
        Column& last = row->columns.back();
        if (column.number < last.number || (column.number == last.number && column.complex())) {
            in.fail();
            return;
        }
        if (column.number == last.number) {
            // Another cell of the same column, that only its value could decide against.
            readCell(in, base, row, Slice{});
            last.count++;
            return;
        }
    }
    if (!column.complex()) {
        readCell(in, base, row, Slice{});
        column.count = 1;
    } else {
        uint8_t flags = in.byte();
        if ((flags & ~COMPLEX_DELETION) != 0) in.fail();
        if ((flags & COMPLEX_DELETION) != 0) column.deletion = readDeletion(in, base);
        column.count = in.length();
        // Each takes two bytes at least: a count that lies must not cost memory.
        if (column.count > in.left()) in.fail();
        for (uint32_t i = 0; i < column.count && in.ok(); i++) {
            Slice path = in.bytes(in.length());
            readCell(in, base, row, path);
            // No collection holds counters.
            if (in.ok() && row->cells.back().counter) in.fail();
        }
        if (!in.ok()) return;
        // Nothing: earlier versions wrote that for a collection that is null at CQL's lowest
        // timestamp.
        if (column.count == 0 && column.deletion.live()) return;
        sortByPath(row, column);
    }
    row->columns.push(column);
}

}  // namespace

bool parseRow(uint8_t head, Reader in, Row* row) {
    row->clear();
    if ((head & KIND_MASK) != ROW || (head & ROW_UNKNOWN) != 0) return false;
    int64_t base = static_cast<int64_t>(in.fixed64());
    if ((head & ROW_LIVENESS) != 0) {
        row->liveness.timestamp = base;
        if (base == NO_TIMESTAMP) in.fail();
        if ((head & ROW_EXPIRING) != 0) {
            row->liveness.ttl = in.length();
            row->liveness.expiration = in.fixed32();
            if (row->liveness.ttl == 0 || row->liveness.expiration == NEVER) in.fail();
        }
    } else if ((head & ROW_EXPIRING) != 0) {
        in.fail();
    }
    if ((head & ROW_DELETION) != 0) row->deletion = readDeletion(in, base);
    row->shadowable = (head & ROW_SHADOWABLE) != 0;
    if ((head & ROW_CLUSTERING) != 0) {
        row->hasClustering = true;
        row->clustering = readPrefix(in);
    }
    while (in.more()) readColumn(in, base, row);
    return in.ok();
}

bool parsePartition(uint8_t head, Reader in, PartitionRecord* record) {
    *record = PartitionRecord{};
    if ((head & KIND_MASK) != PARTITION || (head & PARTITION_UNKNOWN) != 0) return false;
    if ((head & PARTITION_DELETION) != 0) record->deletion = readFixedDeletion(in);
    record->hasRanges = (head & PARTITION_HAS_RANGES) != 0;
    if ((head & PARTITION_RANGES) != 0) {
        Deletion highest = readFixedDeletion(in);
        record->hasHighest = true;
        record->highestTimestamp = highest.timestamp;
        record->highestLocalTime = highest.localTime;
    }
    return in.ok() && !in.more();
}

bool parseRange(uint8_t head, Reader in, RangeRecord* record) {
    *record = RangeRecord{};
    if ((head & KIND_MASK) != RANGE || (head & RANGE_UNKNOWN) != 0) return false;
    record->deletion = readFixedDeletion(in);
    if ((head & RANGE_BOUNDS) != 0) {
        const uint8_t* from = in.at();
        readPrefix(in);
        readPrefix(in);
        record->hasBounds = true;
        record->bounds = Slice{from, static_cast<size_t>(in.at() - from)};
    }
    return in.ok() && !in.more();
}

namespace {

/** Writes head, room for the length, and afterwards the length. */
class Fragment {
public:
    Fragment(Buffer& out, unsigned head) : out_(out) {
        putByte(out, head);
        body_ = out.size();
    }

    void finish() {
        size_t length = out_.size() - body_;
        uint8_t varint[10];
        size_t size = 0;
        for (uint64_t v = length;; v >>= 7) {
            varint[size++] = static_cast<uint8_t>(v >= 0x80 ? (v & 0x7F) | 0x80 : v);
            if (v < 0x80) break;
        }
        out_.append(varint, size);
        memmove(out_.begin() + body_ + size, out_.begin() + body_, length);
        memcpy(out_.begin() + body_, varint, size);
    }

private:
    Buffer& out_;
    size_t body_;
};

void putDeletion(Buffer& out, const Deletion& deletion, int64_t base) {
    putZigzag(out, minus(deletion.timestamp, base));
    putFixed32(out, deletion.localTime);
}

void putFixedDeletion(Buffer& out, int64_t timestamp, uint32_t localTime) {
    putFixed64(out, static_cast<uint64_t>(timestamp));
    putFixed32(out, localTime);
}

void putCell(Buffer& out, const Cell& cell, int64_t base, const Liveness& liveness) {
    unsigned flags = 0;
    if (cell.large)
        flags |= CELL_LARGE;
    else if (cell.value.size > 0)
        flags |= CELL_VALUE;
    if (cell.timestamp != base) flags |= CELL_TIMESTAMP;
    if (cell.tombstone()) flags |= CELL_TOMBSTONE;
    if (cell.expiring()) {
        flags |= CELL_EXPIRING;
        if (liveness.expiring() && cell.ttl == liveness.ttl &&
            cell.localTime == liveness.expiration)
            flags |= CELL_ROW_EXPIRY;
    }
    if (cell.counter) flags |= CELL_COUNTER;
    putByte(out, flags);
    if ((flags & CELL_TIMESTAMP) != 0) putZigzag(out, minus(cell.timestamp, base));
    if ((flags & CELL_ROW_EXPIRY) == 0) {
        if (cell.expiring()) putVarint(out, cell.ttl);
        if (cell.localTime != NEVER) putFixed32(out, cell.localTime);
    }
    if (cell.large) {
        putBytes(out, cell.value);
    } else if (cell.value.size > 0) {
        putVarint(out, cell.value.size);
        putBytes(out, cell.value);
    }
}

int64_t baseTimestamp(const Row& row) {
    if (!row.liveness.empty()) return row.liveness.timestamp;
    if (!row.deletion.live()) return row.deletion.timestamp;
    if (row.columns.size() == 0) return 0;
    const Column& first = row.columns[0];
    if (!first.deletion.live()) return first.deletion.timestamp;
    return row.cells[first.first].timestamp;
}

}  // namespace

void writeRow(const Row& row, Buffer& out) {
    int64_t base = baseTimestamp(row);
    unsigned head = ROW;
    if (!row.liveness.empty()) head |= ROW_LIVENESS;
    if (row.liveness.expiring()) head |= ROW_EXPIRING;
    if (!row.deletion.live()) head |= ROW_DELETION;
    if (row.shadowable) head |= ROW_SHADOWABLE;
    if (row.hasClustering) head |= ROW_CLUSTERING;
    Fragment fragment(out, head);
    putFixed64(out, static_cast<uint64_t>(base));
    if (row.liveness.expiring()) {
        putVarint(out, row.liveness.ttl);
        putFixed32(out, row.liveness.expiration);
    }
    if (!row.deletion.live()) putDeletion(out, row.deletion, base);
    if (row.hasClustering) putBytes(out, row.clustering);
    for (size_t i = 0; i < row.columns.size(); i++) {
        const Column& column = row.columns[i];
        const Cell* cells = row.cells.begin() + column.first;
        if (!column.complex()) {
            for (uint32_t c = 0; c < column.count; c++) {
                putVarint(out, column.number);
                putCell(out, cells[c], base, row.liveness);
            }
            continue;
        }
        putVarint(out, column.number);
        putByte(out, column.deletion.live() ? 0 : COMPLEX_DELETION);
        if (!column.deletion.live()) putDeletion(out, column.deletion, base);
        putVarint(out, column.count);
        for (uint32_t c = 0; c < column.count; c++) {
            putVarint(out, cells[c].path.size);
            putBytes(out, cells[c].path);
            putCell(out, cells[c], base, row.liveness);
        }
    }
    fragment.finish();
}

void writePartition(const PartitionRecord& record, Buffer& out) {
    unsigned head = PARTITION;
    if (!record.deletion.live()) head |= PARTITION_DELETION;
    if (record.hasRanges) head |= PARTITION_HAS_RANGES;
    if (record.hasHighest) head |= PARTITION_RANGES;
    Fragment fragment(out, head);
    if (!record.deletion.live())
        putFixedDeletion(out, record.deletion.timestamp, record.deletion.localTime);
    if (record.hasHighest)
        putFixedDeletion(out, record.highestTimestamp, record.highestLocalTime);
    fragment.finish();
}

void writeRange(const RangeRecord& record, Buffer& out) {
    Fragment fragment(out, RANGE | (record.hasBounds ? RANGE_BOUNDS : 0));
    putFixedDeletion(out, record.deletion.timestamp, record.deletion.localTime);
    if (record.hasBounds) putBytes(out, record.bounds);
    fragment.finish();
}

}  // namespace petra
