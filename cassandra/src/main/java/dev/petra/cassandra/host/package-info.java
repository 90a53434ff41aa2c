// SPDX-License-Identifier: Apache-2.0
/**
 * What the major releases of Cassandra have in different forms, behind one interface. {@code
 * docs/cassandra-6.md} says what else stands between this module and the next of them.
 */
@NullMarked
package dev.petra.cassandra.host;

import org.jspecify.annotations.NullMarked;
