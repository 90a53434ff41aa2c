// SPDX-License-Identifier: Apache-2.0
// What one store's merge operator and compaction filter share with Java.
#pragma once

#include <pthread.h>

#include <atomic>

#include "reconcile.h"

namespace petra {

/** The fields that Java reads and writes, in this order; Reconciler.java has the same. */
struct State {
    std::atomic<int64_t> now;            // seconds; 0: unknown
    std::atomic<int64_t> gcBefore;       // seconds; 0: nothing goes
    std::atomic<int64_t> coverGcBefore;  // seconds; 0: nothing that covers other keys goes
    std::atomic<int64_t> maxPurgeable[2];      // microseconds
    std::atomic<int64_t> activeMaxPurgeable;    // 0 or 1
    std::atomic<int64_t> watching;       // whether merges of compactions look for what could go
    std::atomic<int64_t> loosePaths;     // whether one path may have several byte forms
    std::atomic<int64_t> merges;
    std::atomic<int64_t> malformed;
    std::atomic<int64_t> purged;
    std::atomic<int64_t> removed;
    std::atomic<int64_t> expired;
    std::atomic<int64_t> leftovers;
    std::atomic<int64_t> kept;  // seconds; lowest local time of what may go later
};
static_assert(sizeof(State) == 15 * sizeof(int64_t), "as Java sees it");

/**
 * Ranges of keys of rows, and for each the deletion that hides what is in it; the deletion stays. Not
 * changed once it is made. Counted by the store and by filters.
 */
class HiddenRanges {
public:
    /**
     * @param packed for each range, in the order of keys, none meeting another: the sizes of its bounds
     *     (4 bytes each), timestamp and local time of the deletion (8 each), its bounds: the first key,
     *     and the first key behind it
     * @return null if it is malformed
     */
    static HiddenRanges* create(Slice packed);
    void retain();
    void release();

    /** Which deletion hides what is under a key; live if none does. */
    Deletion of(Slice key) const;

private:
    struct Range {
        Slice from;
        Slice to;
        Deletion deletion;
    };

    std::atomic<int> references_;
    size_t count_;
    Range* ranges_;
    uint8_t* bytes_;
};

/** Counted: by Java, by the merge operator, by the compaction filter's factory and by filters. */
class Store {
public:
    static Store* create();
    void retain();
    void release();

    State state;

    PurgeLimits limits() const;
    void count(const PurgeCounts& counts);

    /** What filters that are made from now on take away, however young that is; null for nothing. */
    void hide(HiddenRanges* ranges);
    /** @return for the caller to release; null if there is nothing */
    HiddenRanges* hidden();

    /** Remembers a key for Java to report. */
    void reportMalformed(Slice key);
    /** @return malloc'ed bytes of a key, and its size; null if there is none */
    uint8_t* takeMalformed(size_t* size);

private:
    static constexpr size_t REMEMBERED = 16;

    std::atomic<int> references_;
    pthread_mutex_t lock_;
    uint8_t* keys_[REMEMBERED];
    size_t sizes_[REMEMBERED];
    size_t remembered_;
    HiddenRanges* hidden_;
};

/** The scratch memory of the current thread; freed with it. */
Scratch& scratch();

/** Finds RocksDB's C API in the library that an Env of Java's lives in. @return an error, or null */
const char* bind(void* env);

void install(Store* store, void* options, bool strictSuccessiveMerges);
void allowUnpreparedValue(void* readOptions);

/**
 * Has values of blob files cached.
 *
 * @param cache a rocksdb_cache_t: like Java's handle, it begins with the shared pointer
 */
void setBlobCache(void* options, void* cache);
void ignoreWriteBuffersInRecovery(void* options);

/**
 * Adds what an iterator comes to, which is left on the first entry that was not added. One iterator
 * after the other, on each thread.
 *
 * @param most so many entries
 * @param loosePaths whether paths that differ in bytes may be one to Cassandra
 * @param head what the keys of a partition begin with of which the first key is in the middle; or
 *     nothing
 * @return an error that the caller frees, or null
 */
char* extend(void* iterator, uint32_t most, bool loosePaths, Slice head, Extent* extent);

/**
 * While this thread compacts files of which everything may go: local times before gcBefore and
 * timestamps below one of the store's max purgeable timestamps, what covers other keys too.
 *
 * @param mark which of them
 */
void purgeHere(int64_t gcBefore, int mark);

/**
 * While this thread compacts files, what is in a range of keys, both ends included, may go as far as
 * the store's own limits allow, with a max purgeable timestamp of its own, and within these limits
 * too; not what covers other keys.
 *
 * @param mark which of the store's max purgeable timestamps holds
 */
void purgeRangeHere(int64_t gcBefore, int64_t maxPurgeable, int mark, Slice from, Slice to);

/** Ends either. */
void purgeNowhere();

/**
 * Says, behind purgeRangeHere, that what a partition's deletion hides goes, however young that is and
 * also outside of the range; the deletions stay. Not while RocksDB has deletions of ranges: it asks
 * the filter about what they delete too, and such a record hides nothing.
 *
 * @param record which the partition of the first key has; or nothing
 */
void coverHere(Slice key, Slice record);

/** Sets options of an open column family. @return an error that the caller frees, or null */
char* setOptions(void* db, void* family, int count, const char** keys, const char** values);

/**
 * Ends compactions of ranges of keys, those that wait for a thread too, and returns when they have
 * ended. One that begins meanwhile ends at once.
 */
void endManualCompactions(void* db);

/**
 * Moves an iterator on and copies the entries it comes to: the sizes of key and value, 4 bytes each,
 * key, value.
 *
 * @param isThere whether it is on the first of them, not before it
 * @param isAhead set to whether it is on one that had no room
 * @return how many were copied
 */
uint32_t fetch(
        void* iterator, bool forward, bool isThere, uint32_t most, uint8_t* batch,
        size_t batchBytes, bool* isAhead);

/** What kind of error there is, in the order of StreamSst.ErrorCode in Java. */
#define PETRA_ERROR_CODES(code) code(NONE) code(ROCKSDB) code(MALFORMED)
#define PETRA_ERROR_CODE(name) name,
enum class ErrorCode : int32_t { PETRA_ERROR_CODES(PETRA_ERROR_CODE) };
#undef PETRA_ERROR_CODE

/** Why something failed. */
struct Error {
    ErrorCode code = ErrorCode::NONE;
    char* text = nullptr;  // which the caller frees
};

/**
 * Copies rows that an iterator comes to, up to its end, to an SstFileWriter.
 *
 * @param ids of columns, as renumber() takes them
 */
Error copyRows(void* iterator, void* writer, const uint32_t* ids, size_t idCount);

/**
 * Adds entries to an SstFileWriter, packed as fetch() packs them.
 *
 * @param ids as renumber() takes them, for values to be looked at and left; null: not even that
 */
Error addPacked(void* writer, bool merge, Slice entries, const uint32_t* ids, size_t idCount);

}  // namespace petra
