// SPDX-License-Identifier: Apache-2.0
/**
 * The indexes of a store, in a column family of their own: defining and dropping them, scans, and
 * the sweep that removes entries which no row confirms.
 */
@NullMarked
package dev.petra.engine.rocks.index;

import org.jspecify.annotations.NullMarked;
