// SPDX-License-Identifier: Apache-2.0
// The native methods of dev.petra.engine.rocks: Crc32c, Reconciler, MutableOptions,
// ManualCompactions, Cursor and StreamSst.
#include <jni.h>
#include <stddef.h>
#include <stdio.h>

#include "crc32c.h"
#include "store.h"

using namespace petra;

#define PETRA(result, name) extern "C" JNIEXPORT result JNICALL Java_dev_petra_engine_rocks_nativelib_Reconciler_##name

namespace {

Store* store(jlong handle) { return reinterpret_cast<Store*>(handle); }

jbyteArray bytes(JNIEnv* env, const uint8_t* data, size_t size) {
    jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
    if (array != nullptr && size > 0)
        env->SetByteArrayRegion(
                array, 0, static_cast<jsize>(size), reinterpret_cast<const jbyte*>(data));
    return array;
}

void copy(JNIEnv* env, jbyteArray array, Buffer& out) {
    size_t size = static_cast<size_t>(env->GetArrayLength(array));
    size_t at = out.size();
    out.resize(at + size);
    env->GetByteArrayRegion(
            array, 0, static_cast<jsize>(size), reinterpret_cast<jbyte*>(out.begin() + at));
}

/** Frees what it makes a string of. */
jstring text(JNIEnv* env, char* error) {
    jstring result = env->NewStringUTF(error);
    free(error);
    return result;
}

/** Gives back the code, and the text in an array's first element. */
jint code(JNIEnv* env, const Error& error, jobjectArray to) {
    if (error.code != ErrorCode::NONE) {
        jstring string = text(env, error.text);
        // Null with an exception, when there is no memory for it.
        if (string != nullptr) env->SetObjectArrayElement(to, 0, string);
    }
    return static_cast<jint>(error.code);
}

/** The ids of columns from a Java array, which may be null. */
struct Ids {
    Array<uint32_t> numbers;
    const uint32_t* begin = nullptr;
    size_t count = 0;

    Ids(JNIEnv* env, jintArray ids) {
        if (ids == nullptr) return;
        count = static_cast<size_t>(env->GetArrayLength(ids));
        numbers.resize(count + 1);  // never null
        env->GetIntArrayRegion(
                ids, 0, static_cast<jsize>(count), reinterpret_cast<jint*>(numbers.begin()));
        begin = numbers.begin();
    }
};

struct Field {
    const char* name;
    size_t offset;
};

/** Where the fields of a struct are, as "name=offset ...", with its size at the end. */
template <size_t COUNT>
jstring describe(JNIEnv* env, const Field (&fields)[COUNT], size_t structBytes) {
    char layout[512];
    size_t used = 0;
    for (const Field& field : fields)
        used += static_cast<size_t>(
                snprintf(layout + used, sizeof(layout) - used, "%s=%zu ", field.name, field.offset));
    snprintf(layout + used, sizeof(layout) - used, "size=%zu", structBytes);
    return env->NewStringUTF(layout);
}

}  // namespace

extern "C" JNIEXPORT void JNICALL Java_dev_petra_engine_rocks_nativelib_Crc32c_offer(
        JNIEnv*, jclass) {
    offerCrc32c();
}

extern "C" JNIEXPORT jboolean JNICALL Java_dev_petra_engine_rocks_nativelib_Crc32c_isUsed(
        JNIEnv*, jclass) {
    return isCrc32cUsed() ? JNI_TRUE : JNI_FALSE;
}

extern "C" JNIEXPORT jint JNICALL Java_dev_petra_engine_rocks_nativelib_Crc32c_extend(
        JNIEnv* env, jclass, jint crc, jobject bytes, jint from, jint to) {
    const char* begin = static_cast<const char*>(env->GetDirectBufferAddress(bytes));
    return static_cast<jint>(
            crc32c(static_cast<uint32_t>(crc), begin + from, static_cast<size_t>(to - from)));
}

PETRA(jstring, bind)(JNIEnv* env, jclass, jlong rocksEnv) {
    const char* error = petra::bind(reinterpret_cast<void*>(rocksEnv));
    return error == nullptr ? nullptr : env->NewStringUTF(error);
}

PETRA(jlong, create)(JNIEnv*, jclass) { return reinterpret_cast<jlong>(Store::create()); }

PETRA(jobject, state)(JNIEnv* env, jclass, jlong handle) {
    return env->NewDirectByteBuffer(&store(handle)->state, sizeof(State));
}

#define PETRA_FIELD(type, name) {#name, offsetof(type, name)}

PETRA(jstring, stateLayout)(JNIEnv* env, jclass) {
    static const Field FIELDS[] = {
            PETRA_FIELD(State, now),
            PETRA_FIELD(State, gcBefore),
            PETRA_FIELD(State, coverGcBefore),
            PETRA_FIELD(State, maxPurgeable),
            PETRA_FIELD(State, activeMaxPurgeable),
            PETRA_FIELD(State, watching),
            PETRA_FIELD(State, loosePaths),
            PETRA_FIELD(State, merges),
            PETRA_FIELD(State, malformed),
            PETRA_FIELD(State, purged),
            PETRA_FIELD(State, removed),
            PETRA_FIELD(State, expired),
            PETRA_FIELD(State, leftovers),
            PETRA_FIELD(State, kept),
    };
    return describe(env, FIELDS, sizeof(State));
}

PETRA(jstring, extentLayout)(JNIEnv* env, jclass) {
    // As Java writes them behind the other numbers.
    static_assert(offsetof(Extent::Bucket, localTime) == 0, "first");
    static_assert(offsetof(Extent::Bucket, highest) == 8, "second");
    static_assert(offsetof(Extent::Bucket, bytes) == 16, "third");
    static const Field FIELDS[] = {
            PETRA_FIELD(Extent, lowest),
            PETRA_FIELD(Extent, highest),
            PETRA_FIELD(Extent, end),
            PETRA_FIELD(Extent, bytes),
            PETRA_FIELD(Extent, entries),
            PETRA_FIELD(Extent, deletions),
            PETRA_FIELD(Extent, coverBytes),
            PETRA_FIELD(Extent, coverFrom),
            PETRA_FIELD(Extent, rangeFrom),
            PETRA_FIELD(Extent, headBytes),
            PETRA_FIELD(Extent, headHighest),
            PETRA_FIELD(Extent, count),
            PETRA_FIELD(Extent, buckets),
            PETRA_FIELD(Extent, late),
    };
    return describe(env, FIELDS, sizeof(Extent));
}

#undef PETRA_FIELD

PETRA(void, release)(JNIEnv*, jclass, jlong handle) { store(handle)->release(); }

PETRA(void, install)(JNIEnv*, jclass, jlong handle, jlong options, jboolean strict) {
    petra::install(store(handle), reinterpret_cast<void*>(options), strict != 0);
}

PETRA(void, allowUnpreparedValue)(JNIEnv*, jclass, jlong readOptions) {
    petra::allowUnpreparedValue(reinterpret_cast<void*>(readOptions));
}

PETRA(void, setBlobCache)(JNIEnv*, jclass, jlong options, jlong cache) {
    petra::setBlobCache(reinterpret_cast<void*>(options), reinterpret_cast<void*>(cache));
}

PETRA(void, ignoreWriteBuffersInRecovery)(JNIEnv*, jclass, jlong options) {
    petra::ignoreWriteBuffersInRecovery(reinterpret_cast<void*>(options));
}

PETRA(jbyteArray, takeMalformed)(JNIEnv* env, jclass, jlong handle) {
    size_t size = 0;
    uint8_t* key = store(handle)->takeMalformed(&size);
    if (key == nullptr) return nullptr;
    jbyteArray result = bytes(env, key, size);
    free(key);
    return result;
}

PETRA(jlong, scratchBytes)(JNIEnv*, jclass) { return static_cast<jlong>(scratch().bytes()); }

PETRA(jbyteArray, mergeAll)(JNIEnv* env, jclass, jobjectArray values) {
    Buffer copies;
    Array<size_t> ends;
    jsize count = env->GetArrayLength(values);
    for (jsize i = 0; i < count; i++) {
        jbyteArray value = static_cast<jbyteArray>(env->GetObjectArrayElement(values, i));
        copy(env, value, copies);
        env->DeleteLocalRef(value);
        ends.push(copies.size());
    }
    Array<Slice> slices;
    for (size_t i = 0, from = 0; i < ends.size(); from = ends[i], i++)
        slices.push(Slice{copies.begin() + from, ends[i] - from});
    Scratch& s = scratch();
    merge(slices.begin(), slices.size(), s);
    return bytes(env, s.out.begin(), s.out.size());
}

PETRA(jbyteArray, purgeValue)
(JNIEnv* env, jclass, jbyteArray value, jlong now, jlong gcBefore, jlong coverGcBefore,
 jlong maxPurgeable, jboolean loosePaths) {
    Buffer buffer;
    copy(env, value, buffer);
    PurgeLimits limits;
    limits.now = now;
    limits.gcBefore = gcBefore;
    limits.coverGcBefore = coverGcBefore;
    limits.maxPurgeable = maxPurgeable;
    limits.loosePaths = loosePaths != 0;
    PurgeCounts counts;
    Scratch& s = scratch();
    switch (purge(Slice{buffer.begin(), buffer.size()}, limits, s, &counts)) {
        case Verdict::REMOVE:
            return nullptr;
        case Verdict::CHANGE:
            return bytes(env, s.out.begin(), s.out.size());
        default:
            return value;
    }
}

PETRA(void, purgeHere)(JNIEnv*, jclass, jlong gcBefore, jint mark) {
    petra::purgeHere(gcBefore, mark & 1);
}

PETRA(void, purgeNowhere)(JNIEnv*, jclass) { petra::purgeNowhere(); }

PETRA(void, purgeRangeHere)
(JNIEnv* env, jclass, jlong gcBefore, jlong maxPurgeable, jint mark, jbyteArray from,
 jbyteArray to) {
    Buffer bounds;
    copy(env, from, bounds);
    size_t fromSize = bounds.size();
    copy(env, to, bounds);
    petra::purgeRangeHere(
            gcBefore, maxPurgeable, mark & 1, Slice{bounds.begin(), fromSize},
            Slice{bounds.begin() + fromSize, bounds.size() - fromSize});
}

PETRA(void, coverHere)(JNIEnv* env, jclass, jbyteArray key, jbyteArray record) {
    Buffer both;
    copy(env, key, both);
    size_t keySize = both.size();
    copy(env, record, both);
    petra::coverHere(
            Slice{both.begin(), keySize}, Slice{both.begin() + keySize, both.size() - keySize});
}

PETRA(jboolean, hide)(JNIEnv* env, jclass, jlong handle, jbyteArray packed) {
    if (packed == nullptr) {
        store(handle)->hide(nullptr);
        return JNI_TRUE;
    }
    Buffer ranges;
    copy(env, packed, ranges);
    petra::HiddenRanges* hidden = petra::HiddenRanges::create(Slice{ranges.begin(), ranges.size()});
    if (hidden == nullptr) return JNI_FALSE;
    store(handle)->hide(hidden);
    return JNI_TRUE;
}

PETRA(jstring, extend)
(JNIEnv* env, jclass, jlong iterator, jint most, jboolean loosePaths, jbyteArray head,
 jlongArray fields) {
    constexpr jsize NUMBERS = static_cast<jsize>(sizeof(Extent) / sizeof(jlong));
    jlong numbers[NUMBERS];
    env->GetLongArrayRegion(fields, 0, NUMBERS, numbers);
    if (env->ExceptionCheck()) return nullptr;
    Extent extent;
    memcpy(static_cast<void*>(&extent), numbers, sizeof(numbers));
    Buffer partition;
    copy(env, head, partition);
    char* error = extend(
            reinterpret_cast<void*>(iterator), static_cast<uint32_t>(most), loosePaths != 0,
            Slice{partition.begin(), partition.size()}, &extent);
    if (error != nullptr) return text(env, error);
    memcpy(numbers, &extent, sizeof(numbers));
    env->SetLongArrayRegion(fields, 0, NUMBERS, numbers);
    return nullptr;
}

extern "C" JNIEXPORT jint JNICALL Java_dev_petra_engine_rocks_read_Cursor_fetch(
        JNIEnv* env, jclass, jlong iterator, jboolean forward, jboolean isThere, jint most,
        jobject batch, jint batchBytes) {
    bool isAhead;
    uint32_t count = fetch(
            reinterpret_cast<void*>(iterator), forward != 0, isThere != 0,
            static_cast<uint32_t>(most), static_cast<uint8_t*>(env->GetDirectBufferAddress(batch)),
            static_cast<size_t>(batchBytes), &isAhead);
    return static_cast<jint>(count | (isAhead ? 0x80000000u : 0));
}

extern "C" JNIEXPORT jstring JNICALL Java_dev_petra_engine_rocks_nativelib_MutableOptions_set(
        JNIEnv* env, jclass, jlong db, jlong family, jobjectArray keys, jobjectArray values) {
    constexpr jsize MOST = 64;
    jsize count = env->GetArrayLength(keys);
    if (count > MOST) return env->NewStringUTF("too many options at once");
    jstring strings[2 * MOST];
    const char* texts[2 * MOST];
    for (jsize i = 0; i < 2 * count; i++) {
        jobjectArray from = i < count ? keys : values;
        strings[i] = static_cast<jstring>(env->GetObjectArrayElement(from, i % count));
        texts[i] = env->GetStringUTFChars(strings[i], nullptr);
        if (texts[i] == nullptr) return nullptr;  // with OutOfMemoryError
    }
    char* error = setOptions(
            reinterpret_cast<void*>(db), reinterpret_cast<void*>(family), count, texts,
            texts + count);
    for (jsize i = 0; i < 2 * count; i++) env->ReleaseStringUTFChars(strings[i], texts[i]);
    return error == nullptr ? nullptr : text(env, error);
}

extern "C" JNIEXPORT void JNICALL Java_dev_petra_engine_rocks_nativelib_ManualCompactions_end(
        JNIEnv*, jclass, jlong db) {
    endManualCompactions(reinterpret_cast<void*>(db));
}

extern "C" JNIEXPORT jstring JNICALL Java_dev_petra_engine_rocks_stream_StreamSst_errorCodes(
        JNIEnv* env, jclass) {
#define PETRA_ERROR_CODE(name) #name " "
    return env->NewStringUTF(PETRA_ERROR_CODES(PETRA_ERROR_CODE));
#undef PETRA_ERROR_CODE
}

extern "C" JNIEXPORT jint JNICALL Java_dev_petra_engine_rocks_stream_StreamSst_copyRows(
        JNIEnv* env, jclass, jlong iterator, jlong writer, jintArray ids, jobjectArray text) {
    Ids numbers(env, ids);
    Error error = copyRows(
            reinterpret_cast<void*>(iterator), reinterpret_cast<void*>(writer), numbers.begin,
            numbers.count);
    return code(env, error, text);
}

extern "C" JNIEXPORT jint JNICALL Java_dev_petra_engine_rocks_stream_StreamSst_add(
        JNIEnv* env, jclass, jlong writer, jboolean merge, jobject entries, jint bytes,
        jintArray ids, jobjectArray text) {
    Ids numbers(env, ids);
    const uint8_t* begin = static_cast<const uint8_t*>(env->GetDirectBufferAddress(entries));
    return code(
            env,
            addPacked(
                    reinterpret_cast<void*>(writer), merge != 0,
                    Slice{begin, static_cast<size_t>(bytes)}, numbers.begin, numbers.count),
            text);
}
