// SPDX-License-Identifier: Apache-2.0
/** Tests of the launcher. Those that start a node start a fake Cassandra. */
@NullMarked
package dev.petra.launcher;

import org.jspecify.annotations.NullMarked;
