// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

/**
 * The byte after the partition's position in every key. A read needs the kinds in the order of
 * these numbers, which is the order of the keys.
 */
public final class KeyKind {
    /** The partition's record: its deletion, and whether it has range tombstones. */
    public static final int PARTITION = 0x10;

    /** The static row. */
    public static final int STATIC = 0x20;

    /** A range tombstone; its start bound and end bound follow. */
    public static final int RANGE = 0x30;

    /** A row; its clustering follows. */
    public static final int ROW = 0x40;

    /** Not stored: a bound that sorts after all keys of a partition. */
    public static final int END = 0xFF;

    private KeyKind() {}
}
