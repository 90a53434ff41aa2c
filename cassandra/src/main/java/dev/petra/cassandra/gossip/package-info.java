// SPDX-License-Identifier: Apache-2.0
/** What nodes tell each other in the gossip states that Cassandra leaves free. */
@NullMarked
package dev.petra.cassandra.gossip;

import org.jspecify.annotations.NullMarked;
