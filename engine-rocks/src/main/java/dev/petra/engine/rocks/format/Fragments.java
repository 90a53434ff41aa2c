// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

/**
 * The constants of values. A value is one or more fragments, one after the other, oldest first. A
 * fragment has its length, so a write can merge one by appending it. {@code docs/FORMAT.md} has the
 * tables and worked examples, and {@code FormatTest} pins the bytes.
 *
 * <pre>
 *   fragment  = head (1 byte: kind in bits 0-1, flags above), varint length of body, body
 *   row       = [fixed64 base timestamp] [liveness] [deletion] [clustering] column*
 *   partition = [deletion] [highest timestamp and local deletion time of its range tombstones]
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

    /** The row's liveness expires: TTL and local expiration time follow. */
    static final int ROW_EXPIRING = 0x08;

    /** The row is deleted: timestamp minus base and local deletion time follow. */
    static final int ROW_DELETION = 0x10;

    /** The row's deletion is shadowable, as in materialized views. */
    static final int ROW_SHADOWABLE = 0x20;

    /** Decoding the key does not return the clustering's written bytes: they follow. */
    static final int ROW_CLUSTERING = 0x40;

    /** The partition is deleted: timestamp and local deletion time follow. */
    static final int PARTITION_DELETION = 0x04;

    /** The partition has or had range tombstones. Only format 1 wrote it; merges keep it. */
    static final int PARTITION_HAS_RANGES = 0x08;

    /**
     * The partition has or had range tombstones. Their highest timestamp and highest local deletion
     * time follow; these tell when the last of them can be purged.
     */
    static final int PARTITION_RANGES = 0x10;

    /** Decoding the key does not return the bounds' written bytes: they follow. */
    static final int RANGE_BOUNDS = 0x04;

    /** The undefined flags of a kind; a fragment that has one is malformed. */
    static int unknownFlags(int kind) {
        return switch (kind) {
            case ROW -> 0x80;
            case PARTITION -> 0xE0;
            default -> 0xF8;
        };
    }

    /** The column is complex: the lowest bit of the number before its cells. */
    static final int COLUMN_COMPLEX = 0x01;

    /** The complex column has a deletion: timestamp minus base and local deletion time follow. */
    static final int COMPLEX_DELETION = 0x01;

    /** The cell has a value that is not empty: its length and its bytes follow. */
    static final int CELL_VALUE = 0x01;

    /** The cell is a tombstone: local deletion time follows. */
    public static final int CELL_TOMBSTONE = 0x02;

    /** The cell expires: TTL and local deletion time follow, unless {@link #CELL_ROW_EXPIRY}. */
    public static final int CELL_EXPIRING = 0x04;

    /** The cell's timestamp is not the base timestamp: the difference follows. */
    static final int CELL_TIMESTAMP = 0x08;

    /** The cell's TTL and local deletion time are those of the row's liveness; none follow. */
    static final int CELL_ROW_EXPIRY = 0x10;

    /** The cell is a counter's. The merge operator, which knows no schema, needs this flag. */
    public static final int CELL_COUNTER = 0x20;

    /**
     * The value is in column family {@code large}: its hash, 8 bytes, follows instead; see {@link
     * LargeCells}.
     */
    public static final int CELL_LARGE = 0x40;

    static final int CELL_UNKNOWN = 0x80;

    private Fragments() {}
}
