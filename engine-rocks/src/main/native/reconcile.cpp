// SPDX-License-Identifier: Apache-2.0
#include "reconcile.h"

#include <algorithm>
#include <utility>

namespace petra {

Scratch::~Scratch() {
    for (size_t i = 0; i < contexts.size(); i++) free(contexts[i]);
}

void Scratch::begin() {
    out.clear();
    mixed = manyShards = false;
    // What one huge value needed is not kept for all that follow.
    trim(1 << 12, 1 << 14, 4 << 20);
}

void Scratch::end() {
    // There are as many as threads, and no setting counts them: less than 512 KiB each. Less would
    // have compactions of rows of some hundred cells allocate anew for each row.
    trim(1 << 7, 1 << 10, 64 << 10);
    operands.trim(1 << 7);
    contexts.trim(1 << 7);
}

void Scratch::trim(size_t mostColumns, size_t mostCells, size_t mostBytes) {
    for (size_t i = 0; i < contexts.size(); i++) free(contexts[i]);
    contexts.clear();
    for (Row* row : {&oldest, &rest, &few, &next, &merged}) row->trim(mostColumns, mostCells);
    slot.trim(mostCells);
    out.trim(mostBytes);
}

size_t Scratch::bytes() const {
    size_t rows = oldest.bytes() + rest.bytes() + few.bytes() + next.bytes() + merged.bytes();
    return rows + slot.bytes() + contexts.bytes() + operands.bytes() + out.bytes();
}

namespace {

constexpr size_t SHARD = 32;  // counter id 16, clock 8, count 8
constexpr size_t SHARD_ID = 16;
constexpr size_t MOST_SHARDS = 8192;  // one per node that ever counted; far from what 15 bits hold

int64_t number64(const uint8_t* p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | p[i];
    return static_cast<int64_t>(v);
}

/** The shards of a context of global shards only, in the order of their ids; null for any other. */
bool globalShards(const Slice& context, Slice* shards) {
    if (context.size < 2) return false;
    size_t count = static_cast<size_t>(context.data[0]) << 8 | context.data[1];
    size_t header = 2 + 2 * count;
    if (count == 0 || count > MOST_SHARDS || context.size != header + count * SHARD) return false;
    for (size_t i = 0; i < count; i++) {
        const uint8_t* element = context.data + 2 + 2 * i;
        // A global shard: its index, with the sign bit.
        size_t index = static_cast<size_t>(element[0] & 0x7F) << 8 | element[1];
        if ((element[0] & 0x80) == 0 || index != i) return false;
    }
    *shards = Slice{context.data + header, count * SHARD};
    for (size_t i = 1; i < count; i++)
        if (memcmp(shards->data + (i - 1) * SHARD, shards->data + i * SHARD, SHARD_ID) >= 0)
            return false;
    return true;
}

/** CounterContext.merge, for global shards: of one id the higher clock, then the higher count. */
Slice mergeContexts(const Slice& a, const Slice& b, Scratch& scratch) {
    Slice left, right;
    // Both were looked at before merging began; but merging may have made one of too many shards.
    if (!globalShards(a, &left) || !globalShards(b, &right)) {
        scratch.manyShards = true;
        return a;
    }
    size_t most = (left.size + right.size) / SHARD;
    uint8_t* block = static_cast<uint8_t*>(malloc(2 + most * (2 + SHARD)));
    if (block == nullptr) abort();
    scratch.contexts.push(block);
    uint8_t* shards = block + 2 + 2 * most;
    size_t count = 0, l = 0, r = 0;
    bool leftWhole = true, rightWhole = true;
    while (l < left.size || r < right.size) {
        int order = l == left.size    ? 1
                    : r == right.size ? -1
                                      : memcmp(left.data + l, right.data + r, SHARD_ID);
        const uint8_t* chosen = order <= 0 ? left.data + l : right.data + r;
        if (order == 0) {
            int64_t lc = number64(left.data + l + 16), rc = number64(right.data + r + 16);
            int64_t ln = number64(left.data + l + 24), rn = number64(right.data + r + 24);
            bool leftMore = lc != rc ? lc > rc : ln > rn;
            bool same = lc == rc && ln == rn;
            if (!same) (leftMore ? rightWhole : leftWhole) = false;
            chosen = same || leftMore ? left.data + l : right.data + r;
        } else {
            (order < 0 ? rightWhole : leftWhole) = false;
        }
        memcpy(shards + count * SHARD, chosen, SHARD);
        count++;
        if (order <= 0) l += SHARD;
        if (order >= 0) r += SHARD;
    }
    if (leftWhole) return a;
    if (rightWhole) return b;
    block[0] = static_cast<uint8_t>(count >> 8);
    block[1] = static_cast<uint8_t>(count);
    for (size_t i = 0; i < count; i++) {
        block[2 + 2 * i] = static_cast<uint8_t>(0x80 | i >> 8);
        block[3 + 2 * i] = static_cast<uint8_t>(i);
    }
    memmove(block + 2 + 2 * count, shards, count * SHARD);
    return Slice{block, 2 + count * (2 + SHARD)};
}

enum class Order { FIRST, SECOND, BOTH };

/** Cells.resolveRegular; BOTH where it would compare a value that lies apart. */
Order resolveRegular(const Cell& a, const Cell& b) {
    if (a.timestamp != b.timestamp)
        return a.timestamp > b.timestamp ? Order::FIRST : Order::SECOND;
    bool aEnds = a.localTime != NEVER, bEnds = b.localTime != NEVER;
    if (aEnds != bEnds) return aEnds ? Order::FIRST : Order::SECOND;
    if (aEnds) {
        if (a.tombstone() != b.tombstone()) return a.tombstone() ? Order::FIRST : Order::SECOND;
        if (a.localTime != b.localTime)
            return a.localTime > b.localTime ? Order::FIRST : Order::SECOND;
        if (a.ttl != b.ttl) return a.ttl < b.ttl ? Order::FIRST : Order::SECOND;
    }
    if (a.large || b.large)
        return a.large == b.large && a.value == b.value ? Order::FIRST : Order::BOTH;
    return compare(a.value, b.value) >= 0 ? Order::FIRST : Order::SECOND;
}

/** Cells.resolveCounter; the result is put into the first. */
void resolveCounter(Cell& a, const Cell& b, Scratch& scratch) {
    if (a.tombstone() || b.tombstone()) {
        if (!a.tombstone()) a = b;
        return;
    }
    if (a.value.size == 0 || b.value.size == 0) {
        bool bothEmpty = a.value.size == b.value.size;
        if (bothEmpty ? a.timestamp <= b.timestamp : a.value.size != 0) a = b;
        return;
    }
    a.value = mergeContexts(a.value, b.value, scratch);
    if (b.timestamp > a.timestamp) a.timestamp = b.timestamp;
}

/** Inline first, then by hash: an order of their own for what cannot be decided. */
bool tieBefore(const Cell& a, const Cell& b) {
    if (a.large != b.large) return !a.large;
    return compare(a.value, b.value) < 0;
}

/** Adds a cell to those of its column, or of its path, that stand behind `begin`. */
void addToSlot(const Cell& cell, size_t begin, Array<Cell>& out, Scratch& scratch) {
    bool stands = true;
    size_t kept = begin;
    for (size_t i = begin; i < out.size(); i++) {
        Cell other = out[i];
        if (stands && (other.counter || cell.counter)) {
            // A counter and what is no counter, in one column: never written.
            if (other.counter != cell.counter && !other.tombstone() && !cell.tombstone())
                scratch.mixed = true;
            resolveCounter(other, cell, scratch);
            stands = false;
            out[kept++] = other;
            continue;
        }
        Order order = stands ? resolveRegular(other, cell) : Order::FIRST;
        if (order == Order::FIRST) stands = false;
        if (order != Order::SECOND) out[kept++] = other;
    }
    out.truncate(kept);
    if (!stands) return;
    out.push(cell);
    for (size_t i = out.size() - 1; i > begin && tieBefore(out[i], out[i - 1]); i--)
        std::swap(out[i], out[i - 1]);
}

/**
 * Merges the cells of one column, or of one path, into `out`. Usually one and one; more only where
 * values that lie apart would have to decide.
 */
void mergeSlot(
        const Cell* a, size_t aCount, const Cell* b, size_t bCount, Array<Cell>& out,
        Scratch& scratch) {
    size_t begin = out.size();
    for (size_t i = 0; i < aCount; i++) addToSlot(a[i], begin, out, scratch);
    for (size_t i = 0; i < bCount; i++) addToSlot(b[i], begin, out, scratch);
}

/** The cells of a column that a deletion leaves. */
void retain(const Row& row, const Column& column, const Deletion& deletion, Array<Cell>& out) {
    for (uint32_t i = 0; i < column.count; i++) {
        const Cell& cell = row.cells[column.first + i];
        if (deletion.live() || !deletion.deletes(cell.timestamp)) out.push(cell);
    }
}

size_t samePath(const Array<Cell>& cells, size_t from, size_t to) {
    size_t end = from + 1;
    while (end < to && cells[end].path == cells[from].path) end++;
    return end - from;
}

/** Rows.merge(a, b), a the older. */
void mergeRows(const Row& a, const Row& b, Row& out, Scratch& scratch) {
    out.clear();
    out.counters = a.counters || b.counters;
    // What a purge leaves of a row has not the bytes that were written, as nothing would have none.
    const Row& first = a.empty() && !a.hasClustering ? b : a;
    out.hasClustering = first.hasClustering;
    out.clustering = first.clustering;
    out.liveness = a.liveness.supersedes(b.liveness) ? a.liveness : b.liveness;
    out.deletion = a.deletion.supersedes(b.deletion) ? a.deletion : b.deletion;
    if (!out.deletion.live() && out.deletion.deletes(out.liveness.timestamp))
        out.liveness = Liveness{};

    Array<Cell>& slot = scratch.slot;
    size_t i = 0, j = 0;
    while (i < a.columns.size() || j < b.columns.size()) {
        bool fromA = j == b.columns.size() ||
                     (i < a.columns.size() && a.columns[i].number <= b.columns[j].number);
        bool fromB = i == a.columns.size() ||
                     (j < b.columns.size() && b.columns[j].number <= a.columns[i].number);
        const Column* ca = fromA ? &a.columns[i++] : nullptr;
        const Column* cb = fromB ? &b.columns[j++] : nullptr;
        Column column{};
        column.number = ca != nullptr ? ca->number : cb->number;
        column.first = static_cast<uint32_t>(out.cells.size());
        Deletion da = ca != nullptr ? ca->deletion : Deletion{};
        Deletion db = cb != nullptr ? cb->deletion : Deletion{};
        column.deletion = da.supersedes(db) ? da : db;
        if (out.deletion.supersedes(column.deletion)) column.deletion = Deletion{};
        const Deletion& covering =
                column.deletion.supersedes(out.deletion) ? column.deletion : out.deletion;

        slot.clear();
        if (ca != nullptr) retain(a, *ca, covering, slot);
        size_t middle = slot.size();
        if (cb != nullptr) retain(b, *cb, covering, slot);
        if (!column.complex()) {
            mergeSlot(slot.begin(), middle, slot.begin() + middle, slot.size() - middle, out.cells,
                      scratch);
        } else {
            size_t l = 0, r = middle;
            while (l < middle || r < slot.size()) {
                int order = l == middle         ? 1
                            : r == slot.size() ? -1
                                               : compare(slot[l].path, slot[r].path);
                size_t ls = order <= 0 ? samePath(slot, l, middle) : 0;
                size_t rs = order >= 0 ? samePath(slot, r, slot.size()) : 0;
                mergeSlot(slot.begin() + l, ls, slot.begin() + r, rs, out.cells, scratch);
                l += ls, r += rs;
            }
        }
        column.count = static_cast<uint32_t>(out.cells.size()) - column.first;
        if (column.count > 0 || !column.deletion.live()) out.columns.push(column);
    }
}

enum class Parsed { FINE, APART, MALFORMED };

/** Whether native rules decide what becomes of a row; see merge() for those that they do not. */
Parsed parse(uint8_t head, const Reader& body, Row* row) {
    if (!parseRow(head, body, row)) return Parsed::MALFORMED;
    // Its rule depends on the order of merging: left to the reader.
    if (row->shadowable) return Parsed::APART;
    if (!row->counters) return Parsed::FINE;
    for (size_t i = 0; i < row->cells.size(); i++) {
        const Cell& cell = row->cells[i];
        Slice shards;
        // Local shards add up, so that merging twice would count twice; remote ones go with them.
        if (cell.counter && cell.value.size > 0 && !globalShards(cell.value, &shards))
            return Parsed::APART;
    }
    return Parsed::FINE;
}

/** All fragments of some values, in order. */
class Fragments {
public:
    Fragments(const Slice* values, size_t count) : values_(values), count_(count) { open(); }

    /** False at the end, and where it is malformed: then ok() is false. */
    bool next(uint8_t* head, Reader* body) {
        while (ok_ && value_ < count_) {
            if (nextFragment(in_, head, body)) return true;
            if (!in_.ok()) ok_ = false;
            value_++;
            open();
        }
        return false;
    }

    bool ok() const { return ok_; }

private:
    void open() {
        if (value_ < count_) {
            const Slice& v = values_[value_];
            in_ = Reader(v.data, v.data + v.size);
        }
    }

    const Slice* values_;
    size_t count_;
    size_t value_ = 0;
    bool ok_ = true;
    Reader in_{nullptr, nullptr};
};

/**
 * How many fragments are merged with each other before they join those before them: a row of which
 * each has one element is not copied for each of them.
 */
constexpr size_t FEW = 64;

Parsed mergeRowFragments(Fragments& in, uint8_t head, Reader body, Scratch& scratch) {
    Parsed parsed = parse(head, body, &scratch.oldest);
    if (parsed != Parsed::FINE) return parsed;
    // The oldest, usually what was merged before and the largest, joins last. Not with counters,
    // where a deletion between two contexts makes the order matter, as in Cassandra.
    size_t few = 0;
    bool more = false;
    auto mergeInto = [&scratch](Row& older, const Row& newer) {
        mergeRows(older, newer, scratch.merged, scratch);
        older.swap(scratch.merged);
    };
    auto joinFew = [&] {
        if (few == 0) return;
        if (more) mergeInto(scratch.rest, scratch.few);
        else scratch.rest.swap(scratch.few);
        more = true;
        few = 0;
    };
    auto joinAll = [&] {
        joinFew();
        if (more) mergeInto(scratch.oldest, scratch.rest);
        more = false;
    };
    while (in.next(&head, &body)) {
        parsed = parse(head, body, &scratch.next);
        if (parsed != Parsed::FINE) return parsed;
        if (scratch.next.counters || scratch.oldest.counters) {
            joinAll();
            mergeInto(scratch.oldest, scratch.next);
            continue;
        }
        if (few == 0) scratch.few.swap(scratch.next);
        else mergeInto(scratch.few, scratch.next);
        if (++few == FEW) joinFew();
    }
    if (!in.ok()) return Parsed::MALFORMED;
    joinAll();
    if (scratch.mixed) return Parsed::MALFORMED;
    if (scratch.manyShards) return Parsed::APART;
    writeRow(scratch.oldest, scratch.out);
    return Parsed::FINE;
}

Parsed mergePartitionFragments(
        Fragments& in, uint8_t head, Reader body, PartitionRecord* all) {
    if (!parsePartition(head, body, all)) return Parsed::MALFORMED;
    while (in.next(&head, &body)) {
        PartitionRecord next;
        if (!parsePartition(head, body, &next)) return Parsed::MALFORMED;
        if (next.deletion.supersedes(all->deletion)) all->deletion = next.deletion;
        all->hasRanges |= next.hasRanges;
        if (!next.hasHighest) continue;
        if (!all->hasHighest || next.highestTimestamp > all->highestTimestamp)
            all->highestTimestamp = next.highestTimestamp;
        if (!all->hasHighest || next.highestLocalTime > all->highestLocalTime)
            all->highestLocalTime = next.highestLocalTime;
        all->hasHighest = true;
    }
    return in.ok() ? Parsed::FINE : Parsed::MALFORMED;
}

Parsed mergeRangeFragments(Fragments& in, uint8_t head, Reader body, RangeRecord* all) {
    if (!parseRange(head, body, all)) return Parsed::MALFORMED;
    while (in.next(&head, &body)) {
        RangeRecord next;
        if (!parseRange(head, body, &next)) return Parsed::MALFORMED;
        if (next.deletion.supersedes(all->deletion)) all->deletion = next.deletion;
    }
    return in.ok() ? Parsed::FINE : Parsed::MALFORMED;
}

}  // namespace

bool merge(const Slice* values, size_t count, Scratch& scratch) {
    scratch.begin();
    // A single fragment stands as it is.
    Fragments look(values, count);
    uint8_t head = 0;
    Reader body{nullptr, nullptr};
    size_t fragments = 0;
    while (fragments < 2 && look.next(&head, &body)) fragments++;
    Parsed parsed = look.ok() ? Parsed::APART : Parsed::MALFORMED;
    if (fragments == 2) {
        Fragments in(values, count);
        in.next(&head, &body);
        switch (head & KIND_MASK) {
            case ROW:
                parsed = mergeRowFragments(in, head, body, scratch);
                break;
            case PARTITION: {
                PartitionRecord record;
                parsed = mergePartitionFragments(in, head, body, &record);
                if (parsed == Parsed::FINE) writePartition(record, scratch.out);
                break;
            }
            case RANGE: {
                RangeRecord record;
                parsed = mergeRangeFragments(in, head, body, &record);
                if (parsed == Parsed::FINE) writeRange(record, scratch.out);
                break;
            }
            default:
                parsed = Parsed::MALFORMED;
        }
    }
    if (parsed != Parsed::FINE) {
        scratch.out.clear();
        for (size_t i = 0; i < count; i++) putBytes(scratch.out, values[i]);
    }
    return parsed != Parsed::MALFORMED;
}

namespace {

int64_t time(uint32_t localTime) { return localTime == NEVER ? INT64_MAX : localTime; }

void keep(int64_t localTime, PurgeCounts* counts) {
    if (localTime < counts->kept) counts->kept = localTime;
}

bool isLive(const Cell& cell, const PurgeLimits& limits) {
    return cell.localTime == NEVER ||
           (cell.expiring() && (limits.now == 0 || limits.now < time(cell.localTime)));
}

/** AbstractCell.purge. @return false if the cell goes */
bool purgeCell(Cell& cell, const PurgeLimits& limits, PurgeCounts* counts) {
    if (cell.localTime == NEVER) return true;
    int64_t localTime = time(cell.localTime);
    if (!isLive(cell, limits)) {
        if (limits.purges(cell.timestamp, localTime)) return false;
        if (cell.expiring()) {
            int64_t deleted = localTime - cell.ttl;
            if (deleted < 0) deleted = 0;
            if (limits.purges(cell.timestamp, deleted)) return false;
            counts->expired++;
            cell.localTime = static_cast<uint32_t>(deleted);
            cell.ttl = 0;
            cell.large = false;
            cell.value = Slice{};
        }
    }
    keep(time(cell.localTime), counts);
    return true;
}

/**
 * The lowest timestamp of the live cells of a collection whose elements may have names of several
 * byte forms (1.0 and 1.00). Whatever is not below it may hide one of them under another form.
 */
int64_t lowestLive(const Row& row, const Column& column, const PurgeLimits& limits) {
    int64_t lowest = INT64_MAX;
    for (uint32_t c = 0; c < column.count; c++) {
        const Cell& cell = row.cells[column.first + c];
        if (cell.timestamp < lowest && isLive(cell, limits)) lowest = cell.timestamp;
    }
    return lowest;
}

/** BTreeRow.purge, but for what loose paths may hide. */
void purgeRow(Row& row, const PurgeLimits& limits, PurgeCounts* counts) {
    Liveness& liveness = row.liveness;
    if (liveness.expiring()) {
        bool isLive = liveness.ttl != EXPIRED_LIVENESS_TTL &&
                      (limits.now == 0 || limits.now < time(liveness.expiration));
        if (!isLive && limits.purges(liveness.timestamp, time(liveness.expiration))) {
            liveness = Liveness{};
            counts->purged++;
        } else {
            keep(time(liveness.expiration), counts);
        }
    }
    if (!row.deletion.live()) {
        if (limits.purges(row.deletion.timestamp, time(row.deletion.localTime))) {
            row.deletion = Deletion{};
            counts->purged++;
        } else {
            keep(time(row.deletion.localTime), counts);
        }
    }
    size_t columns = 0;
    for (size_t i = 0; i < row.columns.size(); i++) {
        Column column = row.columns[i];
        if (!column.deletion.live()) {
            if (limits.purges(column.deletion.timestamp, time(column.deletion.localTime))) {
                column.deletion = Deletion{};
                counts->purged++;
            } else {
                keep(time(column.deletion.localTime), counts);
            }
        }
        bool loose = limits.loosePaths && column.complex() && column.count > 1;
        int64_t hidden = loose ? lowestLive(row, column, limits) : INT64_MAX;
        uint32_t kept = 0;
        for (uint32_t c = 0; c < column.count; c++) {
            Cell& cell = row.cells[column.first + c];
            // Not counted as kept: no time lets it go, only a change of what it may hide.
            bool hides = loose && cell.timestamp >= hidden && !isLive(cell, limits);
            if (hides || purgeCell(cell, limits, counts))
                row.cells[column.first + kept++] = cell;
            else
                counts->purged++;
        }
        column.count = kept;
        if (kept > 0 || !column.deletion.live()) row.columns[columns++] = column;
    }
    row.columns.truncate(columns);
}

/**
 * Row.filter, of what the deletion of its partition hides. Not with counters, where what is hidden
 * counts once something newer is merged with it.
 */
void hide(Row& row, const Deletion& cover, PurgeCounts* counts) {
    if (cover.live() || row.counters) return;
    if (!row.liveness.empty() && cover.deletes(row.liveness.timestamp)) {
        row.liveness = Liveness{};
        counts->purged++;
    }
    // Not one that equals it either, as Row.filter: so does one that was pushed down.
    if (!row.deletion.live() && !row.deletion.supersedes(cover)) {
        row.deletion = Deletion{};
        counts->purged++;
    }
    size_t columns = 0;
    for (size_t i = 0; i < row.columns.size(); i++) {
        Column column = row.columns[i];
        if (!column.deletion.live() && cover.supersedes(column.deletion)) {
            column.deletion = Deletion{};
            counts->purged++;
        }
        uint32_t kept = 0;
        for (uint32_t c = 0; c < column.count; c++) {
            const Cell& cell = row.cells[column.first + c];
            if (cover.deletes(cell.timestamp))
                counts->purged++;
            else
                row.cells[column.first + kept++] = cell;
        }
        column.count = kept;
        if (kept > 0 || !column.deletion.live()) row.columns[columns++] = column;
    }
    row.columns.truncate(columns);
}

Verdict verdict(bool changed, bool empty) {
    return empty ? Verdict::REMOVE : changed ? Verdict::CHANGE : Verdict::KEEP;
}

Verdict purgePartition(
        PartitionRecord& record, const PurgeLimits& limits, PurgeCounts* counts) {
    bool changed = false;
    if (!record.deletion.live()) {
        if (limits.purgesCover(record.deletion.timestamp, time(record.deletion.localTime))) {
            record.deletion = Deletion{};
            counts->purged++;
            changed = true;
        } else {
            keep(time(record.deletion.localTime), counts);
        }
    }
    if (record.hasHighest) {
        if (limits.purgesCover(record.highestTimestamp, time(record.highestLocalTime))) {
            record.hasHighest = false;
            counts->ranges = true;
            changed = true;
        } else {
            keep(time(record.highestLocalTime), counts);
        }
    }
    return verdict(
            changed, record.deletion.live() && !record.hasHighest && !record.hasRanges);
}

Verdict purgeRange(const RangeRecord& record, const PurgeLimits& limits, PurgeCounts* counts) {
    if (limits.purgesCover(record.deletion.timestamp, time(record.deletion.localTime))) {
        counts->purged++;
        return Verdict::REMOVE;
    }
    keep(time(record.deletion.localTime), counts);
    return Verdict::KEEP;
}

}  // namespace

Verdict purge(Slice value, const PurgeLimits& limits, Scratch& scratch, PurgeCounts* counts) {
    scratch.begin();
    Fragments in(&value, 1);
    uint8_t head = 0;
    Reader body{nullptr, nullptr};
    if (!in.next(&head, &body)) return Verdict::MALFORMED;
    switch (head & KIND_MASK) {
        case ROW: {
            Parsed parsed = mergeRowFragments(in, head, body, scratch);
            if (parsed == Parsed::APART) return Verdict::KEEP;
            if (parsed == Parsed::MALFORMED) return Verdict::MALFORMED;
            Row& row = scratch.oldest;
            uint64_t before = counts->purged + counts->expired;
            hide(row, limits.cover, counts);
            purgeRow(row, limits, counts);
            if (row.empty()) return Verdict::REMOVE;
            if (counts->purged + counts->expired == before) return Verdict::KEEP;
            scratch.out.clear();
            writeRow(row, scratch.out);
            return Verdict::CHANGE;
        }
        case PARTITION: {
            PartitionRecord record;
            if (mergePartitionFragments(in, head, body, &record) != Parsed::FINE)
                return Verdict::MALFORMED;
            Verdict verdict = purgePartition(record, limits, counts);
            if (verdict == Verdict::CHANGE) writePartition(record, scratch.out);
            return verdict;
        }
        case RANGE: {
            RangeRecord record;
            if (mergeRangeFragments(in, head, body, &record) != Parsed::FINE)
                return Verdict::MALFORMED;
            return purgeRange(record, limits, counts);
        }
        default:
            return Verdict::MALFORMED;
    }
}

namespace {

void extend(int64_t timestamp, int64_t localTime, Extent* extent) {
    extent->lowest = std::min(extent->lowest, timestamp);
    extent->highest = std::max(extent->highest, timestamp);
    extent->end = std::max(extent->end, localTime);
}

void extend(const Deletion& deletion, Extent* extent) {
    if (!deletion.live()) extend(deletion.timestamp, time(deletion.localTime), extent);
}

void extend(const Row& row, Extent* extent) {
    if (!row.liveness.empty())
        extend(row.liveness.timestamp, time(row.liveness.expiration), extent);
    extend(row.deletion, extent);
    for (size_t i = 0; i < row.columns.size(); i++)
        extend(row.columns.begin()[i].deletion, extent);
    for (size_t i = 0; i < row.cells.size(); i++)
        extend(row.cells.begin()[i].timestamp, time(row.cells.begin()[i].localTime), extent);
}

/**
 * What of a row may go before all of it may, by what each part takes at least; not what loose paths
 * may hide as long as nothing expires, for no time lets that go.
 */
void countParts(const Row& row, bool loosePaths, Extent* extent) {
    constexpr int64_t TIMES = 5;  // a timestamp or TTL, and a local time
    if (row.liveness.expiring())
        extent->add(time(row.liveness.expiration), row.liveness.timestamp, TIMES);
    auto deletion = [extent](const Deletion& each) {
        if (!each.live()) extent->add(time(each.localTime), each.timestamp, TIMES);
    };
    deletion(row.deletion);
    for (size_t i = 0; i < row.columns.size(); i++) {
        const Column& column = row.columns.begin()[i];
        deletion(column.deletion);
        bool loose = loosePaths && column.complex();
        int64_t hidden = loose ? lowestLive(row, column, PurgeLimits{}) : INT64_MAX;
        for (uint32_t c = 0; c < column.count; c++) {
            const Cell& cell = row.cells.begin()[column.first + c];
            if (cell.localTime != NEVER && (!loose || cell.timestamp < hidden))
                extent->add(
                        time(cell.localTime), cell.timestamp,
                        static_cast<int64_t>(1 + cell.path.size + cell.value.size));
        }
    }
}

void extend(const PartitionRecord& record, Extent* extent) {
    extend(record.deletion, extent);
    if (record.hasHighest)
        extend(record.highestTimestamp, time(record.highestLocalTime), extent);
    // Of format 1, and kept for good.
    if (record.hasRanges) extent->end = INT64_MAX;
}

}  // namespace

void Extent::add(int64_t localTime, int64_t timestamp, int64_t size) {
    int64_t at = count;
    while (at > 0 && buckets[at - 1].localTime >= localTime) at--;
    if (at < count && buckets[at].localTime == localTime) {
        buckets[at].highest = std::max(buckets[at].highest, timestamp);
        buckets[at].bytes += size;
        return;
    }
    // One more than fit, and then two neighbours become one: those of which one comes that is the
    // least late. So none gets large at the cost of the others, in whatever order times come.
    Bucket all[BUCKETS + 1];
    double lateness[BUCKETS + 1];
    size_t before = static_cast<size_t>(at);
    size_t behind = static_cast<size_t>(count - at);
    memcpy(all, buckets, before * sizeof(Bucket));
    memcpy(lateness, late, before * sizeof(double));
    all[at] = Bucket{localTime, timestamp, size};
    lateness[at] = 0;
    memcpy(all + at + 1, buckets + at, behind * sizeof(Bucket));
    memcpy(lateness + at + 1, late + at, behind * sizeof(double));
    count++;
    if (count > BUCKETS) {
        auto merged = [&all, &lateness](int64_t i) {
            double gap = static_cast<double>(all[i].localTime) -
                         static_cast<double>(all[i - 1].localTime);
            return lateness[i - 1] + lateness[i] + gap * static_cast<double>(all[i - 1].bytes);
        };
        int64_t second = 1;
        double least = merged(1);
        for (int64_t i = 2; i < count; i++) {
            double each = merged(i);
            if (each >= least) continue;
            second = i;
            least = each;
        }
        all[second].highest = std::max(all[second].highest, all[second - 1].highest);
        all[second].bytes += all[second - 1].bytes;
        lateness[second] = least;
        size_t rest = static_cast<size_t>(count - second);
        memmove(all + second - 1, all + second, rest * sizeof(Bucket));
        memmove(lateness + second - 1, lateness + second, rest * sizeof(double));
        count--;
    }
    memcpy(buckets, all, static_cast<size_t>(count) * sizeof(Bucket));
    memcpy(late, lateness, static_cast<size_t>(count) * sizeof(double));
}

void Covering::meet(Slice key, Slice value) {
    if (key.size == 0 || value.size == 0 || (value.data[0] & KIND_MASK) != PARTITION) return;
    deletion = Deletion{};
    size = 0;
    Fragments in(&value, 1);
    uint8_t head = 0;
    Reader body{nullptr, nullptr};
    PartitionRecord record;
    if (!in.next(&head, &body) ||
        mergePartitionFragments(in, head, body, &record) != Parsed::FINE || record.deletion.live())
        return;
    free(partition);
    // Without the byte for the kind.
    size = key.size - 1;
    partition = static_cast<uint8_t*>(malloc(size + 1));
    if (partition == nullptr) abort();
    memcpy(partition, key.data, size);
    deletion = record.deletion;
}

void Covering::release() {
    free(partition);
    partition = nullptr;
    size = 0;
    deletion = Deletion{};
}

bool extend(
        Slice key, Slice value, bool loosePaths, const Deletion& cover, bool isHead,
        Scratch& scratch, Extent* extent) {
    scratch.begin();
    Reader in(value.data, value.data + value.size);
    uint8_t head = 0;
    Reader body{nullptr, nullptr};
    Extent entry;
    size_t rows = 0;
    size_t records = 0;
    size_t fragments = 0;
    bool apart = false;
    bool deletes = false;
    for (; nextFragment(in, &head, &body); fragments++) {
        PartitionRecord partition;
        RangeRecord range;
        Parsed parsed = parse(head, body, &scratch.next);
        if (parsed != Parsed::MALFORMED) {
            apart |= parsed == Parsed::APART;
            rows++;
            extend(scratch.next, &entry);
        } else if (parsePartition(head, body, &partition)) {
            extend(partition, &entry);
            records++;
            deletes |= !partition.deletion.live();
        } else if (parseRange(head, body, &range)) {
            extend(range.deletion, &entry);
            extent->rangeFrom = std::min(extent->rangeFrom, time(range.deletion.localTime));
        } else {
            return false;
        }
    }
    if (!in.ok()) return false;
    extent->lowest = std::min(extent->lowest, entry.lowest);
    extent->highest = std::max(extent->highest, entry.highest);
    extent->end = std::max(extent->end, entry.end);
    int64_t bytes = static_cast<int64_t>(key.size + value.size);
    extent->bytes += bytes;
    extent->entries++;
    if (deletes) extent->deletions++;
    if (records > 0 && entry.end != INT64_MIN && entry.end != INT64_MAX) {
        extent->coverBytes += bytes;
        extent->coverFrom = std::min(extent->coverFrom, entry.end);
    }
    if (isHead && rows > 0) {
        extent->headBytes += bytes;
        extent->headHighest = std::max(
                extent->headHighest, apart || scratch.next.counters ? INT64_MAX : entry.highest);
    }
    // What cannot be merged, and what covers other keys, the purge of a file lets be.
    if (rows != 1 || fragments != 1 || apart) return true;
    const Row& row = scratch.next;
    if (!cover.live() && !row.counters && entry.highest <= cover.timestamp) {
        // Whatever is elsewhere; earlier too, where enough else goes.
        extent->add(time(cover.localTime), INT64_MIN, bytes);
        return true;
    }
    if (row.liveness.empty() && !row.deletion.live() && row.columns.size() == 0)
        extent->deletions++;
    if (entry.end != INT64_MAX)
        extent->add(entry.end, entry.highest, bytes);
    else
        countParts(row, loosePaths, extent);
    return true;
}

bool renumber(Slice value, const uint32_t* ids, size_t count, Scratch& scratch) {
    scratch.begin();
    scratch.out.reserve(1);  // never null, not even for nothing
    Reader in(value.data, value.data + value.size);
    const uint8_t* from = in.at();
    uint8_t head = 0;
    Reader body{nullptr, nullptr};
    for (; nextFragment(in, &head, &body); from = in.at()) {
        if ((head & KIND_MASK) != ROW) {
            PartitionRecord partition;
            RangeRecord range;
            if (!parsePartition(head, body, &partition) && !parseRange(head, body, &range))
                return false;
            scratch.out.append(from, static_cast<size_t>(in.at() - from));
            continue;
        }
        Row& row = scratch.next;
        if (!parseRow(head, body, &row)) return false;
        Column* columns = row.columns.begin();
        for (size_t i = 0; i < row.columns.size(); i++) {
            uint64_t id = columns[i].number >> 1;
            if (id >= count || ids[id] == NO_COLUMN) return false;
            columns[i].number =
                    static_cast<uint64_t>(ids[id]) << 1 | (columns[i].number & COLUMN_COMPLEX);
        }
        std::sort(columns, columns + row.columns.size(), [](const Column& a, const Column& b) {
            return a.number < b.number;
        });
        for (size_t i = 1; i < row.columns.size(); i++)
            if (columns[i].number == columns[i - 1].number) return false;
        writeRow(row, scratch.out);
    }
    return in.ok();
}

}  // namespace petra
