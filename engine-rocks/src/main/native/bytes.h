// SPDX-License-Identifier: Apache-2.0
// Readers and writers of bytes, and arrays that grow. No exceptions, no C++ runtime library.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace petra {

/** A view of bytes that somebody else owns. */
struct Slice {
    const uint8_t* data = nullptr;
    size_t size = 0;

    bool operator==(const Slice& o) const {
        return size == o.size && (size == 0 || memcmp(data, o.data, size) == 0);
    }
};

/** Unsigned bytes, the shorter first where one begins the other: as Cassandra compares values. */
inline int compare(const Slice& a, const Slice& b) {
    size_t n = a.size < b.size ? a.size : b.size;
    int order = n == 0 ? 0 : memcmp(a.data, b.data, n);
    if (order != 0) return order;
    return a.size < b.size ? -1 : a.size > b.size ? 1 : 0;
}

/** An array of plain values that keeps its memory when it is cleared. */
template <typename T>
class Array {
public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { free(items_); }

    T* begin() { return items_; }
    const T* begin() const { return items_; }
    size_t size() const { return size_; }
    T& operator[](size_t i) { return items_[i]; }
    const T& operator[](size_t i) const { return items_[i]; }
    T& back() { return items_[size_ - 1]; }

    void clear() { size_ = 0; }
    void truncate(size_t size) { size_ = size; }

    void push(const T& item) {
        reserve(size_ + 1);
        items_[size_++] = item;
    }

    /** Room for that many, uninitialised behind the present ones. */
    void reserve(size_t wanted) {
        if (wanted <= capacity_) return;
        size_t capacity = capacity_ < 16 ? 16 : capacity_ * 2;
        if (capacity < wanted) capacity = wanted;
        T* items = static_cast<T*>(realloc(static_cast<void*>(items_), capacity * sizeof(T)));
        if (items == nullptr) {
            // The C++ runtime ends a process in the same way when there is no memory left.
            fprintf(stderr, "petra: out of memory (%zu bytes)\n", capacity * sizeof(T));
            abort();
        }
        items_ = items;
        capacity_ = capacity;
    }

    /** Resizes; added elements are not initialised. */
    void resize(size_t size) {
        reserve(size);
        size_ = size;
    }

    void append(const T* items, size_t count) {
        if (count == 0) return;
        reserve(size_ + count);
        memcpy(static_cast<void*>(items_ + size_), items, count * sizeof(T));
        size_ += count;
    }

    /** Frees memory that one large use left behind. */
    void trim(size_t keep) {
        if (capacity_ <= keep) return;
        free(items_);
        items_ = nullptr;
        size_ = capacity_ = 0;
    }

    /** How much memory it keeps. */
    size_t bytes() const { return capacity_ * sizeof(T); }

    void swap(Array& o) {
        T* items = items_;
        size_t size = size_, capacity = capacity_;
        items_ = o.items_, size_ = o.size_, capacity_ = o.capacity_;
        o.items_ = items, o.size_ = size, o.capacity_ = capacity;
    }

private:
    T* items_ = nullptr;
    size_t size_ = 0;
    size_t capacity_ = 0;
};

using Buffer = Array<uint8_t>;

/** Reads bytes; once anything was out of bounds or ill-formed, ok() is false for good. */
class Reader {
public:
    Reader(const uint8_t* from, const uint8_t* to) : at_(from), end_(to) {}

    bool ok() const { return ok_; }
    bool more() const { return ok_ && at_ < end_; }
    const uint8_t* at() const { return at_; }
    size_t left() const { return static_cast<size_t>(end_ - at_); }
    bool fail() {
        ok_ = false;
        return false;
    }

    uint8_t byte() {
        if (!has(1)) return 0;
        return *at_++;
    }

    uint32_t fixed32() {
        if (!has(4)) return 0;
        uint32_t v = 0;
        for (int i = 0; i < 4; i++) v = v << 8 | *at_++;
        return v;
    }

    uint64_t fixed64() {
        if (!has(8)) return 0;
        uint64_t v = 0;
        for (int i = 0; i < 8; i++) v = v << 8 | *at_++;
        return v;
    }

    /** A varint of at most 10 bytes, of which the tenth adds one bit. */
    uint64_t varint() {
        uint64_t v = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            uint8_t b = byte();
            if (!ok_) return 0;
            if (shift == 63 && b > 1) break;
            v |= static_cast<uint64_t>(b & 0x7F) << shift;
            if (b < 0x80) return v;
        }
        fail();
        return 0;
    }

    int64_t zigzag() {
        uint64_t v = varint();
        return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1));
    }

    /** A number that Java reads as an int that is not negative. */
    uint32_t length() {
        uint64_t v = varint();
        if (v > INT32_MAX) fail();
        return ok_ ? static_cast<uint32_t>(v) : 0;
    }

    Slice bytes(size_t size) {
        if (!has(size)) return Slice{};
        Slice s{at_, size};
        at_ += size;
        return s;
    }

    /** The next so many bytes, as a reader of their own. */
    Reader part(size_t size) {
        Slice s = bytes(size);
        Reader r(s.data, s.data + s.size);
        r.ok_ = ok_;
        return r;
    }

private:
    bool has(size_t size) {
        if (!ok_ || left() < size) return fail();
        return true;
    }

    const uint8_t* at_;
    const uint8_t* end_;
    bool ok_ = true;
};

inline void putByte(Buffer& out, unsigned v) { out.push(static_cast<uint8_t>(v)); }

inline void putFixed32(Buffer& out, uint32_t v) {
    for (int shift = 24; shift >= 0; shift -= 8) putByte(out, v >> shift & 0xFF);
}

inline void putFixed64(Buffer& out, uint64_t v) {
    for (int shift = 56; shift >= 0; shift -= 8) putByte(out, v >> shift & 0xFF);
}

inline void putVarint(Buffer& out, uint64_t v) {
    while (v >= 0x80) {
        putByte(out, (v & 0x7F) | 0x80);
        v >>= 7;
    }
    putByte(out, static_cast<unsigned>(v));
}

inline void putZigzag(Buffer& out, int64_t v) {
    putVarint(out, static_cast<uint64_t>(v) << 1 ^ static_cast<uint64_t>(v >> 63));
}

inline void putBytes(Buffer& out, const Slice& s) { out.append(s.data, s.size); }

/** Difference and sum as Java has them: modulo 2^64. */
inline int64_t minus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t plus(int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace petra
