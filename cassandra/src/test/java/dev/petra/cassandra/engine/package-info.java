// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.cassandra.engine;

import org.jspecify.annotations.NullMarked;
