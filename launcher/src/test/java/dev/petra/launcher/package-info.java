// SPDX-License-Identifier: Apache-2.0
/** Tests of the launcher; where a process is needed, a fake Cassandra plays the node. */
@NullMarked
package dev.petra.launcher;

import org.jspecify.annotations.NullMarked;
