// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

/**
 * What an engine may leave out. The kit asserts that what is left out is refused by name.
 *
 * @param streams sends and receives slices
 * @param retainRanges removes what lies outside some ranges
 * @param findsDamage notices a changed byte in its data files
 * @param indexes has indexes by term
 */
public record Capabilities(
        boolean streams, boolean retainRanges, boolean findsDamage, boolean indexes) {
    /** An engine that does everything. */
    public static final Capabilities ALL = new Capabilities(true, true, true, true);
}
