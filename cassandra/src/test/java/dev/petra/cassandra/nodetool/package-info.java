// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.cassandra.nodetool;

import org.jspecify.annotations.NullMarked;
