// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.util.Collection;
import java.util.List;
import org.apache.cassandra.locator.RangesAtEndpoint;
import org.apache.cassandra.streaming.IncomingStream;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.streaming.StreamReceiver;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.TableStreamManager;
import org.apache.cassandra.streaming.messages.StreamMessageHeader;
import org.apache.cassandra.utils.TimeUUID;

/**
 * Streams of an engine table: refused, on both sides, so that bootstrap, decommission, rebuild and
 * repair fail rather than report a success that left data behind. Only a table that never held
 * anything has nothing to send.
 */
record RefusingStreamManager(PetraMemtable table) implements TableStreamManager {
    @Override
    public StreamReceiver createStreamReceiver(StreamSession session, int totalStreams) {
        throw refused(session);
    }

    @Override
    public IncomingStream prepareIncomingStream(StreamSession session, StreamMessageHeader header) {
        throw refused(session);
    }

    @Override
    public Collection<OutgoingStream> createOutgoingStreams(
            StreamSession session,
            RangesAtEndpoint replicas,
            TimeUUID pendingRepair,
            PreviewKind previewKind) {
        if (table.isWholeAndEmpty()) return List.of();
        throw refused(session);
    }

    private UnsupportedOperationException refused(StreamSession session) {
        return new UnsupportedOperationException(
                session.streamOperation().getDescription()
                        + " cannot include table "
                        + table.generation().stores().displayName()
                        + ": streaming of tables in storage engine '"
                        + table.engine().engine()
                        + "' is not supported yet.");
    }
}
