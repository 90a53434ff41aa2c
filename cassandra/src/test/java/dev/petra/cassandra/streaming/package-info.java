// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.cassandra.streaming;

import org.jspecify.annotations.NullMarked;
