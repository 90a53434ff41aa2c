// SPDX-License-Identifier: Apache-2.0
/**
 * Between frames and the ends of Cassandra's streaming connections. The connections are
 * Cassandra's: its ports, its TLS, its authentication, its throttle. Bytes are not copied through
 * the heap.
 */
@NullMarked
package dev.petra.streaming.netty;

import org.jspecify.annotations.NullMarked;
