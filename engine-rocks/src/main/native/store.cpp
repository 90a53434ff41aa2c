// SPDX-License-Identifier: Apache-2.0
#include "store.h"

#include <dlfcn.h>

#include <algorithm>
#include <new>

namespace petra {

Store* Store::create() {
    void* memory = calloc(1, sizeof(Store));
    if (memory == nullptr) abort();
    Store* store = new (memory) Store;
    pthread_mutex_init(&store->lock_, nullptr);
    store->references_ = 1;
    for (auto& each : store->state.maxPurgeable) each = INT64_MIN;
    store->state.kept = INT64_MAX;
    store->remembered_ = 0;
    store->hidden_ = nullptr;
    return store;
}

void Store::retain() { references_.fetch_add(1, std::memory_order_relaxed); }

void Store::release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < remembered_; i++) free(keys_[i]);
    if (hidden_ != nullptr) hidden_->release();
    pthread_mutex_destroy(&lock_);
    free(this);
}

PurgeLimits Store::limits() const {
    PurgeLimits limits;
    limits.now = state.now.load(std::memory_order_acquire);
    limits.gcBefore = state.gcBefore.load(std::memory_order_acquire);
    limits.coverGcBefore = state.coverGcBefore.load(std::memory_order_acquire);
    limits.loosePaths = state.loosePaths.load(std::memory_order_acquire) != 0;
    // The max purgeable timestamp last: what it is lowered to by a write, the write shows only afterwards.
    int64_t active = state.activeMaxPurgeable.load(std::memory_order_acquire);
    limits.maxPurgeable = state.maxPurgeable[active & 1].load(std::memory_order_acquire);
    return limits;
}

void Store::count(const PurgeCounts& counts) {
    if (counts.purged != 0)
        state.purged.fetch_add(static_cast<int64_t>(counts.purged), std::memory_order_relaxed);
    if (counts.expired != 0)
        state.expired.fetch_add(static_cast<int64_t>(counts.expired), std::memory_order_relaxed);
    int64_t kept = state.kept.load(std::memory_order_relaxed);
    while (counts.kept < kept &&
           !state.kept.compare_exchange_weak(kept, counts.kept, std::memory_order_relaxed)) {
    }
}

HiddenRanges* HiddenRanges::create(Slice packed) {
    constexpr size_t HEAD = 2 * sizeof(uint32_t) + 2 * sizeof(int64_t);
    void* memory = calloc(1, sizeof(HiddenRanges));
    uint8_t* bytes = static_cast<uint8_t*>(malloc(packed.size + 1));
    Range* ranges = static_cast<Range*>(malloc((packed.size / HEAD + 1) * sizeof(Range)));
    if (memory == nullptr || bytes == nullptr || ranges == nullptr) abort();
    if (packed.size > 0) memcpy(bytes, packed.data, packed.size);
    HiddenRanges* hidden = new (memory) HiddenRanges;
    hidden->references_ = 1;
    hidden->count_ = 0;
    hidden->ranges_ = ranges;
    hidden->bytes_ = bytes;
    for (size_t at = 0; at < packed.size;) {
        uint32_t sizes[2];
        int64_t times[2];
        size_t left = packed.size - at;
        if (left >= HEAD) {
            memcpy(sizes, bytes + at, sizeof(sizes));
            memcpy(times, bytes + at + sizeof(sizes), sizeof(times));
        }
        if (left < HEAD || sizes[0] > left - HEAD || sizes[1] > left - HEAD - sizes[0]) {
            hidden->release();
            return nullptr;
        }
        at += HEAD;
        Deletion deletion;
        deletion.timestamp = times[0];
        deletion.localTime = static_cast<uint32_t>(times[1]);
        Slice from{bytes + at, sizes[0]};
        Slice to{bytes + at + sizes[0], sizes[1]};
        new (ranges + hidden->count_++) Range{from, to, deletion};
        at += static_cast<size_t>(sizes[0]) + sizes[1];
    }
    return hidden;
}

void HiddenRanges::retain() { references_.fetch_add(1, std::memory_order_relaxed); }

void HiddenRanges::release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    free(ranges_);
    free(bytes_);
    free(this);
}

Deletion HiddenRanges::of(Slice key) const {
    const Range* end = ranges_ + count_;
    const Range* behind = std::upper_bound(
            ranges_, const_cast<Range*>(end), key,
            [](const Slice& k, const Range& range) { return compare(k, range.from) < 0; });
    if (behind == ranges_ || compare(key, behind[-1].to) >= 0) return Deletion{};
    return behind[-1].deletion;
}

void Store::hide(HiddenRanges* ranges) {
    pthread_mutex_lock(&lock_);
    HiddenRanges* before = hidden_;
    hidden_ = ranges;
    pthread_mutex_unlock(&lock_);
    if (before != nullptr) before->release();
}

HiddenRanges* Store::hidden() {
    pthread_mutex_lock(&lock_);
    HiddenRanges* present = hidden_;
    if (present != nullptr) present->retain();
    pthread_mutex_unlock(&lock_);
    return present;
}

void Store::reportMalformed(Slice key) {
    state.malformed.fetch_add(1, std::memory_order_relaxed);
    pthread_mutex_lock(&lock_);
    bool known = remembered_ == REMEMBERED;
    for (size_t i = 0; i < remembered_ && !known; i++) known = Slice{keys_[i], sizes_[i]} == key;
    if (!known) {
        uint8_t* copy = static_cast<uint8_t*>(malloc(key.size + 1));
        if (copy != nullptr) {
            if (key.size > 0) memcpy(copy, key.data, key.size);
            keys_[remembered_] = copy;
            sizes_[remembered_++] = key.size;
        }
    }
    pthread_mutex_unlock(&lock_);
}

uint8_t* Store::takeMalformed(size_t* size) {
    uint8_t* key = nullptr;
    pthread_mutex_lock(&lock_);
    if (remembered_ > 0) {
        key = keys_[--remembered_];
        *size = sizes_[remembered_];
    }
    pthread_mutex_unlock(&lock_);
    return key;
}

namespace {

pthread_key_t scratchKey;
pthread_once_t scratchOnce = PTHREAD_ONCE_INIT;

void freeScratch(void* p) {
    static_cast<Scratch*>(p)->~Scratch();
    free(p);
}

void createScratchKey() {
    if (pthread_key_create(&scratchKey, freeScratch) != 0) abort();
}

Scratch* createScratch() {
    void* memory = malloc(sizeof(Scratch));
    if (memory == nullptr) abort();
    return new (memory) Scratch;
}

}  // namespace

Scratch& scratch() {
    pthread_once(&scratchOnce, createScratchKey);
    void* mine = pthread_getspecific(scratchKey);
    if (mine == nullptr) {
        mine = createScratch();
        pthread_setspecific(scratchKey, mine);
    }
    return *static_cast<Scratch*>(mine);
}

// RocksDB's C API, as c.h declares it

namespace {

using Destructor = void (*)(void*);
using Name = const char* (*)(void*);
using FullMerge = char* (*)(void*, const char*, size_t, const char*, size_t, const char* const*,
                            const size_t*, int, unsigned char*, size_t*);
using PartialMerge = char* (*)(void*, const char*, size_t, const char* const*, const size_t*, int,
                               unsigned char*, size_t*);
using DeleteValue = void (*)(void*, const char*, size_t);
using Filter = unsigned char (*)(void*, int, const char*, size_t, const char*, size_t, char**,
                                 size_t*, unsigned char*);
using CreateFilter = void* (*)(void*, void*);

struct Api {
    void* (*mergeOperatorCreate)(void*, Destructor, FullMerge, PartialMerge, DeleteValue, Name);
    void* (*filterCreate)(void*, Destructor, Filter, Name);
    void* (*filterFactoryCreate)(void*, Destructor, CreateFilter, Name);
    unsigned char (*isManual)(void*);
    void (*setMergeOperator)(void*, void*);
    void (*setFilterFactory)(void*, void*);
    void (*setStrictMaxSuccessiveMerges)(void*, unsigned char);
    void (*setAllowUnpreparedValue)(void*, unsigned char);
    void (*setBlobCache)(void*, void*);
    void (*setEnforceWriteBuffersInRecovery)(void*, unsigned char);
    void (*setOptions)(void*, void*, int, const char* const*, const char* const*, char**);
    void (*disableManualCompaction)(void*);
    void (*enableManualCompaction)(void*);
    unsigned char (*isValid)(const void*);
    void (*next)(void*);
    void (*previous)(void*);
    const char* (*key)(const void*, size_t*);
    const char* (*value)(const void*, size_t*);
    void (*sstPut)(void*, const char*, size_t, const char*, size_t, char**);
    void (*sstMerge)(void*, const char*, size_t, const char*, size_t, char**);
};

/** The C API's own types: rocksdb_iterator_t, rocksdb_t, rocksdb_sstfilewriter_t, and so on. */
struct Iterator {
    void* rep;
};
struct Db {
    void* rep;
};
struct SstWriter {
    void* rep;
};
struct Family {
    void* rep;
    bool immortal;
};

Api api;

void releaseStore(void* store) { static_cast<Store*>(store)->release(); }
const char* operatorName(void*) { return "PetraMerge"; }
const char* filterName(void*) { return "PetraPurge"; }

/** What this thread has merged with, until RocksDB has copied the value; else null. */
thread_local Scratch* merging = nullptr;

/** Behind each merge, whoever owns the value; any thread that reads merges. */
void valueCopied(void*, const char*, size_t) {
    if (merging == nullptr) return;
    merging->end();
    merging = nullptr;
}

Slice slice(const char* data, size_t size) {
    return Slice{reinterpret_cast<const uint8_t*>(data), size};
}

char* mergeValues(Store* store, Slice key, const Slice* values, size_t count, size_t* size) {
    Scratch& s = scratch();
    merging = &s;
    store->state.merges.fetch_add(1, std::memory_order_relaxed);
    if (!merge(values, count, s)) store->reportMalformed(key);
    *size = s.out.size();
    // RocksDB copies it, and then says so. Never null, not even for nothing.
    s.out.reserve(1);
    return reinterpret_cast<char*>(s.out.begin());
}

/** A filter that removes, of a compaction that was asked for. */
struct Removing {
    Store* store;
    HiddenRanges* hidden;  // or null
    /** The partition whose record says since here that it has no range tombstones. */
    Covering ranges{nullptr, 0, Deletion{}};
    /** What that was decided by. */
    PurgeLimits by{};

    /**
     * A read of one row asks only the record whether there are range tombstones. So these go with
     * it: what is written in between comes too late, as if they had been looked at just before.
     */
    void follow(Slice key, Slice value, PurgeLimits* limits) const {
        if (value.size == 0 || (value.data[0] & KIND_MASK) != RANGE || !ranges.isOf(key)) return;
        limits->coverGcBefore = by.coverGcBefore;
        limits->maxPurgeable = by.maxPurgeable;
    }

    void dropped(Slice recordKey, const PurgeLimits& limits) {
        ranges.release();
        // Without the byte for the kind.
        size_t size = recordKey.size - 1;
        ranges.partition = static_cast<uint8_t*>(malloc(size + 1));
        if (ranges.partition == nullptr) abort();
        memcpy(ranges.partition, recordKey.data, size);
        ranges.size = size;
        by = limits;
    }

    void hide(Slice key, PurgeLimits* limits) const {
        if (hidden == nullptr) return;
        Deletion deletion = hidden->of(key);
        if (deletion.supersedes(limits->cover)) limits->cover = deletion;
    }
};

/**
 * How many filters this thread has that remove: not 0 while it merges for a compaction that was asked
 * for. RocksDB makes and frees the filter of each subcompaction on the thread that merges for it.
 */
thread_local int removing = 0;

/** The last of them, until it is freed. */
thread_local const Removing* lastRemoving = nullptr;

/**
 * Whether what is merged here may reach the bottom without the filter. Nothing that a read or a
 * flush merges does; what a compaction that RocksDB begins by itself merges, the one that was asked
 * for finds, or has filtered before.
 */
bool isWatched(const Store* store) {
    return removing > 0 && store->state.watching.load(std::memory_order_acquire) != 0;
}

/** Whether the filter, which does not see what was just merged, would have changed it. */
void watch(Store* store, Slice key, Slice value) {
    Scratch* mine = createScratch();
    PurgeCounts counts;
    PurgeLimits limits = store->limits();
    if (lastRemoving != nullptr && lastRemoving->store == store) lastRemoving->hide(key, &limits);
    Verdict verdict = purge(value, limits, *mine, &counts);
    if (verdict == Verdict::CHANGE || verdict == Verdict::REMOVE)
        store->state.leftovers.fetch_add(1, std::memory_order_relaxed);
    counts.purged = counts.expired = 0;
    store->count(counts);
    freeScratch(mine);
}

Array<Slice>& operands() {
    Array<Slice>& mine = scratch().operands;
    mine.clear();
    return mine;
}

/** Of this thread. */
struct Limits {
    int64_t gcBefore;
    int64_t maxPurgeable;
    int mark;  // the store's max purgeable timestamp that holds too; NO_MARK: these are not set
    uint8_t* bounds;  // the first and the last key, one behind the other; null: any key
    size_t fromSize;
    size_t toSize;
    bool hides;  // whether the covering is asked
    Covering covering;

    bool contains(Slice key) const {
        return compare(Slice{bounds, fromSize}, key) <= 0 &&
               compare(key, Slice{bounds + fromSize, toSize}) <= 0;
    }
};
constexpr int NO_MARK = -1;
thread_local Limits here{
        0, INT64_MAX, NO_MARK, nullptr, 0, 0, false, Covering{nullptr, 0, Deletion{}}};

/** Of the iterator that this thread reads. */
thread_local Covering reading{nullptr, 0, Deletion{}};

bool isLimitedHere() { return here.mark != NO_MARK; }
bool isPurgedHere() { return isLimitedHere() && here.gcBefore > 0; }

PurgeLimits limitsHere(const Store* store, Slice key) {
    PurgeLimits limits = store->limits();
    if (!isLimitedHere()) return limits;
    // For each value anew: a write lowers it before it can be seen.
    limits.maxPurgeable = std::min(
            here.maxPurgeable,
            store->state.maxPurgeable[here.mark].load(std::memory_order_acquire));
    if (here.bounds == nullptr) {
        limits.gcBefore = limits.coverGcBefore = here.gcBefore;
        return limits;
    }
    limits.coverGcBefore = 0;
    // What files that nobody counted with have beside the range may hide something elsewhere.
    limits.gcBefore = here.contains(key) ? std::min(limits.gcBefore, here.gcBefore) : 0;
    if (here.covering.isOf(key)) limits.cover = here.covering.deletion;
    return limits;
}

/**
 * What a value leaves of which everything goes: the filter, which does not see what was merged just
 * now, removes it the next time.
 */
Slice remains(Store* store, Slice key, Slice value) {
    static const uint8_t EMPTY_ROW[] = {ROW, 8, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t EMPTY_PARTITION[] = {PARTITION, 0};
    if (here.hides) here.covering.meet(key, value);
    PurgeCounts counts;
    Scratch* mine = createScratch();
    Verdict verdict = purge(value, limitsHere(store, key), *mine, &counts);
    freeScratch(mine);
    // A record of range tombstones goes with these, which the filter removes.
    if (verdict != Verdict::REMOVE || value.size == 0 || counts.ranges) return value;
    store->count(counts);
    switch (value.data[0] & KIND_MASK) {
        case ROW:
            return Slice{EMPTY_ROW, sizeof(EMPTY_ROW)};
        case PARTITION:
            return Slice{EMPTY_PARTITION, sizeof(EMPTY_PARTITION)};
        default:
            return value;
    }
}

char* fullMerge(
        void* state, const char* key, size_t keySize, const char* base, size_t baseSize,
        const char* const* values, const size_t* sizes, int count, unsigned char* success,
        size_t* size) {
    Store* store = static_cast<Store*>(state);
    if (base == nullptr && count == 1 && !isWatched(store)) {
        // What a row that is written once costs whoever reads it from the write buffer. RocksDB
        // copies it.
        *success = 1;
        Slice only = slice(values[0], sizes[0]);
        if (isPurgedHere()) only = remains(store, slice(key, keySize), only);
        *size = only.size;
        return reinterpret_cast<char*>(const_cast<uint8_t*>(only.data));
    }
    Array<Slice>& all = operands();
    if (base != nullptr) all.push(slice(base, baseSize));
    for (int i = 0; i < count; i++) all.push(slice(values[i], sizes[i]));
    char* merged = mergeValues(store, slice(key, keySize), all.begin(), all.size(), size);
    if (isWatched(store)) watch(store, slice(key, keySize), slice(merged, *size));
    *success = 1;
    if (!isPurgedHere()) return merged;
    Slice left = remains(store, slice(key, keySize), slice(merged, *size));
    *size = left.size;
    return reinterpret_cast<char*>(const_cast<uint8_t*>(left.data));
}

char* partialMerge(
        void* state, const char* key, size_t keySize, const char* const* values,
        const size_t* sizes, int count, unsigned char* success, size_t* size) {
    Array<Slice>& all = operands();
    for (int i = 0; i < count; i++) all.push(slice(values[i], sizes[i]));
    *success = 1;
    return mergeValues(
            static_cast<Store*>(state), slice(key, keySize), all.begin(), all.size(), size);
}

unsigned char filterBy(
        Store* store, const PurgeLimits& limits, const char* key, size_t keySize,
        const char* value, size_t valueSize, char** newValue, size_t* newSize,
        unsigned char* changed, bool* ranges) {
    Scratch& s = scratch();
    PurgeCounts counts;
    *changed = 0;
    Verdict verdict = purge(slice(value, valueSize), limits, s, &counts);
    store->count(counts);
    *ranges = counts.ranges;
    switch (verdict) {
        case Verdict::REMOVE:
            store->state.removed.fetch_add(1, std::memory_order_relaxed);
            return 1;
        case Verdict::CHANGE:
            *newValue = reinterpret_cast<char*>(s.out.begin());
            *newSize = s.out.size();
            *changed = 1;
            return 0;
        case Verdict::MALFORMED:
            store->reportMalformed(slice(key, keySize));
            return 0;
        case Verdict::KEEP:
            break;
    }
    return 0;
}

unsigned char filter(
        void* state, int, const char* key, size_t keySize, const char* value, size_t valueSize,
        char** newValue, size_t* newSize, unsigned char* changed) {
    Removing* removes = static_cast<Removing*>(state);
    Slice at = slice(key, keySize);
    if (here.hides) here.covering.meet(at, slice(value, valueSize));
    PurgeLimits limits = limitsHere(removes->store, at);
    removes->hide(at, &limits);
    removes->follow(at, slice(value, valueSize), &limits);
    bool ranges = false;
    unsigned char removed = filterBy(
            removes->store, limits, key, keySize, value, valueSize, newValue, newSize, changed,
            &ranges);
    if (ranges && at.size > 0) removes->dropped(at, limits);
    return removed;
}

/** Turns what expired into tombstones, and removes none. */
unsigned char filterExpired(
        void* state, int, const char* key, size_t keySize, const char* value, size_t valueSize,
        char** newValue, size_t* newSize, unsigned char* changed) {
    Store* store = static_cast<Store*>(state);
    PurgeLimits limits = store->limits();
    limits.gcBefore = limits.coverGcBefore = 0;
    bool ranges = false;
    return filterBy(
            store, limits, key, keySize, value, valueSize, newValue, newSize, changed, &ranges);
}

/** A filter is freed on the thread that filtered by it. */
void releaseFilter(void* store) {
    scratch().end();
    releaseStore(store);
}

void releaseRemoving(void* state) {
    scratch().end();
    Removing* removes = static_cast<Removing*>(state);
    removing--;
    if (lastRemoving == removes) lastRemoving = nullptr;
    if (removes->hidden != nullptr) removes->hidden->release();
    removes->ranges.release();
    removes->store->release();
    free(removes);
}

/**
 * Only a compaction that was asked for removes tombstones: it can be stopped, and waited for, by
 * whoever forbids that.
 */
void* createFilter(void* state, void* context) {
    Store* store = static_cast<Store*>(state);
    store->retain();
    if (api.isManual(context) == 0)
        return api.filterCreate(state, releaseFilter, filterExpired, filterName);
    Removing* removes = static_cast<Removing*>(malloc(sizeof(Removing)));
    if (removes == nullptr) abort();
    new (removes) Removing{store, store->hidden()};
    removing++;
    lastRemoving = removes;
    return api.filterCreate(removes, releaseRemoving, filter, filterName);
}

const char* missing = nullptr;

template <typename F>
void find(void* library, const char* name, F* function) {
    void* symbol = dlsym(library, name);
    if (symbol == nullptr) missing = name;
    memcpy(function, &symbol, sizeof(symbol));
}

}  // namespace

const char* bind(void* env) {
    // The library that made this very object, whatever others are loaded and wherever its file is.
    Dl_info info;
    if (env == nullptr || dladdr(*static_cast<void**>(env), &info) == 0)
        return "its library cannot be found";
    void* library = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW);
    if (library == nullptr) return dlerror();
    missing = nullptr;
    find(library, "rocksdb_mergeoperator_create", &api.mergeOperatorCreate);
    find(library, "rocksdb_compactionfilter_create", &api.filterCreate);
    find(library, "rocksdb_compactionfilterfactory_create", &api.filterFactoryCreate);
    find(library, "rocksdb_compactionfiltercontext_is_manual_compaction", &api.isManual);
    find(library, "rocksdb_options_set_merge_operator", &api.setMergeOperator);
    find(library, "rocksdb_options_set_compaction_filter_factory", &api.setFilterFactory);
    find(library, "rocksdb_options_set_strict_max_successive_merges",
         &api.setStrictMaxSuccessiveMerges);
    find(library, "rocksdb_readoptions_set_allow_unprepared_value", &api.setAllowUnpreparedValue);
    find(library, "rocksdb_options_set_blob_cache", &api.setBlobCache);
    find(library, "rocksdb_options_set_enforce_write_buffer_manager_during_recovery",
         &api.setEnforceWriteBuffersInRecovery);
    find(library, "rocksdb_set_options_cf", &api.setOptions);
    find(library, "rocksdb_disable_manual_compaction", &api.disableManualCompaction);
    find(library, "rocksdb_enable_manual_compaction", &api.enableManualCompaction);
    find(library, "rocksdb_iter_valid", &api.isValid);
    find(library, "rocksdb_iter_next", &api.next);
    find(library, "rocksdb_iter_prev", &api.previous);
    find(library, "rocksdb_iter_key", &api.key);
    find(library, "rocksdb_iter_value", &api.value);
    find(library, "rocksdb_sstfilewriter_put", &api.sstPut);
    find(library, "rocksdb_sstfilewriter_merge", &api.sstMerge);
    return missing;
}

void install(Store* store, void* options, bool strictSuccessiveMerges) {
    store->retain();
    api.setMergeOperator(
            options, api.mergeOperatorCreate(
                             store, releaseStore, fullMerge, partialMerge, valueCopied,
                             operatorName));
    store->retain();
    api.setFilterFactory(
            options, api.filterFactoryCreate(store, releaseStore, createFilter, filterName));
    api.setStrictMaxSuccessiveMerges(options, strictSuccessiveMerges ? 1 : 0);
}

void allowUnpreparedValue(void* readOptions) { api.setAllowUnpreparedValue(readOptions, 1); }

void setBlobCache(void* options, void* cache) { api.setBlobCache(options, cache); }

void ignoreWriteBuffersInRecovery(void* options) {
    api.setEnforceWriteBuffersInRecovery(options, 0);
}

char* setOptions(void* db, void* family, int count, const char** keys, const char** values) {
    Db wrappedDb{db};
    Family wrappedFamily{family, true};
    char* error = nullptr;
    api.setOptions(&wrappedDb, &wrappedFamily, count, keys, values, &error);
    return error;
}

void endManualCompactions(void* db) {
    Db wrapped{db};
    api.disableManualCompaction(&wrapped);
    api.enableManualCompaction(&wrapped);
}

uint32_t fetch(
        void* rep, bool forward, bool isThere, uint32_t most, uint8_t* batch, size_t batchBytes,
        bool* isAhead) {
    Iterator iterator{rep};
    uint8_t* to = batch;
    uint32_t count = 0;
    *isAhead = false;
    for (bool move = !isThere; count < most; move = true) {
        if (!api.isValid(&iterator)) break;
        if (move) {
            (forward ? api.next : api.previous)(&iterator);
            if (!api.isValid(&iterator)) break;
        }
        size_t keySize;
        size_t valueSize;
        const char* key = api.key(&iterator, &keySize);
        const char* value = api.value(&iterator, &valueSize);
        size_t room = batchBytes - static_cast<size_t>(to - batch);
        // Each by itself: together they could wrap around.
        if (room < 8 || keySize > room - 8 || valueSize > room - 8 - keySize) {
            *isAhead = true;
            break;
        }
        uint32_t sizes[2] = {static_cast<uint32_t>(keySize), static_cast<uint32_t>(valueSize)};
        memcpy(to, sizes, sizeof(sizes));
        to += sizeof(sizes);
        memcpy(to, key, keySize);
        to += keySize;
        memcpy(to, value, valueSize);
        to += valueSize;
        count++;
    }
    return count;
}

/** What is wrong, with as much of the key as there is room for; the caller frees it. */
static char* malformedEntry(Slice key) {
    char text[128] = "malformed entry under key ";
    size_t used = strlen(text);
    for (size_t i = 0; i < key.size && used + 3 < sizeof(text); i++, used += 2)
        snprintf(text + used, sizeof(text) - used, "%02x", key.data[i]);
    return strdup(text);
}

/** The scratch memory of the current thread, for many values in a row. */
struct ForMany {
    Scratch& mine = scratch();
    ~ForMany() { mine.end(); }
};

char* extend(void* rep, uint32_t most, bool loosePaths, Slice head, Extent* extent) {
    Iterator iterator{rep};
    ForMany memory;
    if (extent->entries == 0) reading.release();
    for (; most > 0 && api.isValid(&iterator); api.next(&iterator), most--) {
        size_t keySize;
        size_t valueSize;
        const char* key = api.key(&iterator, &keySize);
        const char* value = api.value(&iterator, &valueSize);
        Slice at = slice(key, keySize);
        reading.meet(at, slice(value, valueSize));
        bool isHead = head.size > 0 && at.size > head.size &&
                      memcmp(at.data, head.data, head.size) == 0;
        Deletion cover = reading.isOf(at) ? reading.deletion : Deletion{};
        if (extend(at, slice(value, valueSize), loosePaths, cover, isHead, memory.mine, extent))
            continue;
        return malformedEntry(at);
    }
    if (!api.isValid(&iterator)) reading.release();
    return nullptr;
}

void purgeHere(int64_t gcBefore, int mark) {
    free(here.bounds);
    here.covering.release();
    here = Limits{gcBefore, INT64_MAX, mark, nullptr, 0, 0, false, here.covering};
}

void purgeNowhere() { purgeHere(0, NO_MARK); }

void purgeRangeHere(int64_t gcBefore, int64_t maxPurgeable, int mark, Slice from, Slice to) {
    uint8_t* bounds = static_cast<uint8_t*>(malloc(from.size + to.size + 1));
    if (bounds == nullptr) abort();
    if (from.size > 0) memcpy(bounds, from.data, from.size);
    if (to.size > 0) memcpy(bounds + from.size, to.data, to.size);
    free(here.bounds);
    here.covering.release();
    here = Limits{gcBefore, maxPurgeable, mark, bounds, from.size, to.size, false, here.covering};
}

void coverHere(Slice key, Slice record) {
    here.hides = true;
    here.covering.meet(key, record);
}

/** Adds one entry to an SstFileWriter. */
static Error append(SstWriter* writer, bool merge, Slice key, Slice value) {
    char* error = nullptr;
    (merge ? api.sstMerge : api.sstPut)(
            writer, reinterpret_cast<const char*>(key.data), key.size,
            reinterpret_cast<const char*>(value.data), value.size, &error);
    return error == nullptr ? Error{} : Error{ErrorCode::ROCKSDB, error};
}

Error copyRows(void* from, void* to, const uint32_t* ids, size_t idCount) {
    Iterator iterator{from};
    SstWriter writer{to};
    ForMany memory;
    Scratch& s = memory.mine;
    for (; api.isValid(&iterator); api.next(&iterator)) {
        size_t keySize;
        size_t valueSize;
        const char* keyData = api.key(&iterator, &keySize);
        Slice key = slice(keyData, keySize);
        const char* valueData = api.value(&iterator, &valueSize);
        if (!renumber(slice(valueData, valueSize), ids, idCount, s))
            return Error{ErrorCode::MALFORMED, malformedEntry(key)};
        Error error = append(&writer, true, key, Slice{s.out.begin(), s.out.size()});
        if (error.code != ErrorCode::NONE) return error;
    }
    return Error{};
}

Error addPacked(void* rep, bool merge, Slice entries, const uint32_t* ids, size_t idCount) {
    SstWriter writer{rep};
    ForMany memory;
    Scratch& s = memory.mine;
    const uint8_t* at = entries.data;
    size_t left = entries.size;
    while (left > 0) {
        uint32_t lengths[2];
        if (left < sizeof(lengths))
            return Error{ErrorCode::MALFORMED, strdup("packed entries end early")};
        memcpy(lengths, at, sizeof(lengths));
        size_t keySize = lengths[0];
        size_t valueSize = lengths[1];
        at += sizeof(lengths);
        left -= sizeof(lengths);
        if (keySize > left || valueSize > left - keySize)
            return Error{ErrorCode::MALFORMED, strdup("packed entries end early")};
        Slice key{at, keySize};
        Slice value{at + keySize, valueSize};
        if (ids != nullptr && !renumber(value, ids, idCount, s))
            return Error{ErrorCode::MALFORMED, malformedEntry(key)};
        Error error = append(&writer, merge, key, value);
        if (error.code != ErrorCode::NONE) return error;
        at += keySize + valueSize;
        left -= keySize + valueSize;
    }
    return Error{};
}

}  // namespace petra
