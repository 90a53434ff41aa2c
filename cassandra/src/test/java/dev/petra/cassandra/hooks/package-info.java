// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.cassandra.hooks;

import org.jspecify.annotations.NullMarked;
