// SPDX-License-Identifier: Apache-2.0
/**
 * What an operator does with one node: start, settings, {@code nodetool}, shadows, snapshots,
 * refusals.
 */
@NullMarked
package dev.petra.nodetests.operation;

import org.jspecify.annotations.NullMarked;
