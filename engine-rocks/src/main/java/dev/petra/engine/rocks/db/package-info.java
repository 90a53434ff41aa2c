// SPDX-License-Identifier: Apache-2.0
/**
 * One store's database: its options and catalog, opening it, opening it anew after a full disk, its
 * errors, and the barrier and the retries of its writes. {@code StoreContext} is what reading,
 * writing, compaction and streams of one store have in common.
 */
@NullMarked
package dev.petra.engine.rocks.db;

import org.jspecify.annotations.NullMarked;
