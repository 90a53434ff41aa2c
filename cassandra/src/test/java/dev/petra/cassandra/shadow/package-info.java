// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.cassandra.shadow;

import org.jspecify.annotations.NullMarked;
