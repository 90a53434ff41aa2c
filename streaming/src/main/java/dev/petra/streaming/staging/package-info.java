// SPDX-License-Identifier: Apache-2.0
/**
 * Streams under way: what leaves a store, held until its last frame is sent, and what arrives for a
 * table, held back until all of it is there and checked.
 */
@NullMarked
package dev.petra.streaming.staging;

import org.jspecify.annotations.NullMarked;
