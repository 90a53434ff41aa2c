// SPDX-License-Identifier: Apache-2.0
/**
 * Statements of every kind give the same answers as on Cassandra's own storage, or as a model says.
 */
@NullMarked
package dev.petra.nodetests.differential;

import org.jspecify.annotations.NullMarked;
