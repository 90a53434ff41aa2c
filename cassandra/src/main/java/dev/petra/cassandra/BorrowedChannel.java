// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.nio.channels.Channel;

/** A channel over what belongs to a stream's session, which outlives it. */
interface BorrowedChannel extends Channel {
    @Override
    default boolean isOpen() {
        return true;
    }

    @Override
    default void close() {}
}
