// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.netty;

import java.nio.channels.Channel;

/** A channel over a connection that outlives it: to close it does nothing. */
interface CloseShieldChannel extends Channel {
    @Override
    default boolean isOpen() {
        return true;
    }

    @Override
    default void close() {}
}
