// SPDX-License-Identifier: Apache-2.0
/** Tests on real Cassandra processes with Petra in them. */
@NullMarked
package dev.petra.nodetests;

import org.jspecify.annotations.NullMarked;
