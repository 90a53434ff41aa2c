// SPDX-License-Identifier: Apache-2.0
/** What a client waits for, beside Cassandra's own storage; long runs only behind profiles. */
@NullMarked
package dev.petra.nodetests.performance;

import org.jspecify.annotations.NullMarked;
