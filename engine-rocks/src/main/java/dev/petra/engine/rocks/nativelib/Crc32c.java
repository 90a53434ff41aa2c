// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import java.nio.ByteBuffer;

/**
 * The CRC-32C of RocksDB's logs and blob files, by the processor's instruction. RocksDB's library
 * for Java is built for any x86-64, and computes it by tables; ours has a function of the same name
 * that the linker finds first. Nothing is replaced on other processors, where RocksDB uses their
 * instruction itself.
 */
final class Crc32c {
    private Crc32c() {}

    /** Has a RocksDB that is loaded from now on compute them so, if the processor can. */
    static native void offer();

    /** Whether RocksDB has ever computed one so. */
    static native boolean isUsed();

    /**
     * Goes on with one; x86-64 only.
     *
     * @param crc of what comes before; 0 for nothing
     * @param bytes direct
     */
    static native int extend(int crc, ByteBuffer bytes, int from, int to);
}
