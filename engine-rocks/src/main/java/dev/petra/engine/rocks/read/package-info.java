// SPDX-License-Identifier: Apache-2.0
/**
 * The read path: one get for one row, one iterator for anything else. Rows are decoded over a
 * cursor that sees the store as it was when it was opened.
 */
@NullMarked
package dev.petra.engine.rocks.read;

import org.jspecify.annotations.NullMarked;
