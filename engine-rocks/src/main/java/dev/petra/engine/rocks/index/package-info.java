// SPDX-License-Identifier: Apache-2.0
/** Indexes by term: their definitions, scans, and the sweep of what no row confirms. */
@NullMarked
package dev.petra.engine.rocks.index;

import org.jspecify.annotations.NullMarked;
