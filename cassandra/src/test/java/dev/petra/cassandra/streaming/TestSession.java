// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.net.MessagingService;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.async.NettyStreamingConnectionFactory;

/** A session of a repair that never connects. */
class TestSession extends StreamSession {
    TestSession() {
        super(
                StreamOperation.REPAIR,
                InetAddressAndPort.getLoopbackAddress(),
                new NettyStreamingConnectionFactory(),
                null,
                MessagingService.current_version,
                false,
                0,
                null,
                PreviewKind.NONE);
    }
}
