// SPDX-License-Identifier: Apache-2.0
/**
 * The write path: an update is encoded as one merge or as one write batch, written behind the
 * barrier, and synced as the engine's mode says.
 */
@NullMarked
package dev.petra.engine.rocks.write;

import org.jspecify.annotations.NullMarked;
