// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

/**
 * The form of values: one or more fragments, one behind the other. Each delimits itself, so that
 * appending one is merging it. {@code docs/FORMAT.md} has the tables and worked examples; golden
 * tests pin the bytes.
 *
 * <pre>
 *   fragment  = head (1 byte: kind in bits 0-1, flags above), varint length of body, body
 *   row       = [fixed64 base timestamp] [liveness] [deletion] [clustering] column*
 *   partition = [fixed64 timestamp, fixed32 local deletion time] [the same of its ranges]
 *   range     = fixed64 timestamp, fixed32 local deletion time, [start bound, end bound]
 * </pre>
 */
public final class Fragments {
    static final int KIND_MASK = 0x03;
    static final int ROW = 0;
    static final int PARTITION = 1;
    static final int RANGE = 2;

    /** The row has a primary-key liveness; its timestamp is the base timestamp. */
    static final int ROW_LIVENESS = 0x04;

    /** The liveness expires: TTL and local expiration time follow. */
    static final int ROW_EXPIRING = 0x08;

    /** The row is deleted: timestamp against base, local deletion time. */
    static final int ROW_DELETION = 0x10;

    /** The deletion is shadowable (of a materialized view's row). */
    static final int ROW_SHADOWABLE = 0x20;

    /** The key does not give back the clustering's bytes: they follow. */
    static final int ROW_CLUSTERING = 0x40;

    /** The partition is deleted. */
    static final int PARTITION_DELETION = 0x04;

    /** The partition has, or had, range tombstones, no word of which: written by format 1. */
    static final int PARTITION_HAS_RANGES = 0x08;

    /**
     * The partition has, or had, range tombstones: their highest timestamp and their highest local
     * deletion time follow, so that it is known when the last of them may go.
     */
    static final int PARTITION_RANGES = 0x10;

    /** The key does not give back the bounds' bytes: they follow. */
    static final int RANGE_BOUNDS = 0x04;

    /** Bits of a kind's head that have no meaning yet: a fragment with one is malformed. */
    static int unknownFlags(int kind) {
        return switch (kind) {
            case ROW -> 0x80;
            case PARTITION -> 0xE0;
            default -> 0xF8;
        };
    }

    /** A column is complex; lowest bit of its number. */
    static final int COLUMN_COMPLEX = 0x01;

    /** A complex column has a deletion. */
    static final int COMPLEX_DELETION = 0x01;

    /** The cell has a value that is not empty. */
    static final int CELL_VALUE = 0x01;

    /** The cell is a tombstone: local deletion time follows. */
    public static final int CELL_TOMBSTONE = 0x02;

    /** The cell expires: TTL and local deletion time follow, unless they are the row's. */
    public static final int CELL_EXPIRING = 0x04;

    /** The cell's timestamp is not the base's: the difference follows. */
    static final int CELL_TIMESTAMP = 0x08;

    /** TTL and local deletion time are those of the row's liveness. */
    static final int CELL_ROW_EXPIRY = 0x10;

    /** The cell is a counter's: merging needs no schema to know. */
    public static final int CELL_COUNTER = 0x20;

    /**
     * The value lies apart from the row: its hash, 8 bytes, follows instead; see {@link
     * LargeCells}.
     */
    public static final int CELL_LARGE = 0x40;

    static final int CELL_UNKNOWN = 0x80;

    private Fragments() {}
}
