// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

/** The byte behind the partition's position in every key. The order is the order of reading. */
public final class KeyKind {
    /** The partition's own record: deletion, and whether it has range tombstones. */
    public static final int PARTITION = 0x10;

    /** The static row. */
    public static final int STATIC = 0x20;

    /** Range tombstones: start bound, end bound. */
    public static final int RANGE = 0x30;

    /** Rows: clustering. */
    public static final int ROW = 0x40;

    /** Above every kind: sorts behind all of a partition. */
    public static final int END = 0xFF;

    private KeyKind() {}
}
