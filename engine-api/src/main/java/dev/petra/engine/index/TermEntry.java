// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.index;

import java.nio.ByteBuffer;
import java.util.UUID;
import org.apache.cassandra.db.Clustering;

/**
 * One row of a partition, found by one term. Immutable as long as nobody changes the buffer.
 *
 * @param index whose entry it is
 * @param term any bytes, none too, between position and limit; sorted as unsigned bytes
 * @param clustering of the row, {@link Clustering#STATIC_CLUSTERING} for the static row, {@link
 *     Clustering#EMPTY} where the table has no clustering columns
 */
public record TermEntry(UUID index, ByteBuffer term, Clustering<?> clustering) {}
