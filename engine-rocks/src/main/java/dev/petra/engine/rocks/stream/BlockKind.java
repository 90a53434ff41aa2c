// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.stream;

/** The first byte of a block of a slice: what follows it. */
final class BlockKind {
    /** {@link SliceColumns}, before the first entries and whenever there are more columns. */
    static final byte COLUMNS = 'C';

    /** Entries that are merged with what is there. */
    static final byte ROWS = 'R';

    /** Entries that are put in the place of what is there. */
    static final byte LARGE = 'L';

    private BlockKind() {}
}
