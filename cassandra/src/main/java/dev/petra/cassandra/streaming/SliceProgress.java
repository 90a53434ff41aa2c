// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.engine.stream.StreamHead;
import dev.petra.streaming.staging.OutgoingSlice;
import java.util.regex.Pattern;
import org.apache.cassandra.streaming.ProgressInfo;
import org.apache.cassandra.streaming.StreamSession;

/**
 * Tells Cassandra of each frame of a slice. How many bytes there are is an estimate until the last
 * has moved: until then it is at least one more than have. Used by one thread.
 */
final class SliceProgress implements OutgoingSlice.Progress {
    private static final Pattern NAME = Pattern.compile(".+ slice \\d+ of \\d+");

    private final StreamSession session;
    private final String name;
    private final ProgressInfo.Direction direction;
    private final long planned;
    private long moved;

    SliceProgress(
            StreamSession session, String name, ProgressInfo.Direction direction, long planned) {
        this.session = session;
        this.name = name;
        this.direction = direction;
        this.planned = planned;
    }

    /** How a slice is called in what operators see. */
    static String name(String columnFamily, int slice, StreamHead head) {
        return "%s-%s slice %d of %d"
                .formatted(columnFamily, head.table(), slice + 1, head.slices());
    }

    /** Whether a file of a stream is called as a slice is. */
    static boolean isOfSlice(String name) {
        return NAME.matcher(name).matches();
    }

    @Override
    public void moved(long bytes) {
        moved += bytes;
        session.progress(name, direction, moved, bytes, Math.max(planned, moved + 1));
    }

    /** All has moved. */
    void end() {
        session.progress(name, direction, moved, 0, moved);
    }
}
