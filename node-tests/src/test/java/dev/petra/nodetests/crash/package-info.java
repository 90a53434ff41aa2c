// SPDX-License-Identifier: Apache-2.0
/**
 * Nodes that are killed at any time or at a chosen step lose no acknowledged write, and bring back
 * nothing that was deleted.
 */
@NullMarked
package dev.petra.nodetests.crash;

import org.jspecify.annotations.NullMarked;
