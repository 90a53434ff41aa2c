// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.disk.StoreDirectory;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.streaming.OutgoingStream;
import org.apache.cassandra.streaming.StreamSession;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;
import org.apache.cassandra.utils.TimeUUID;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A directory of SSTables that were written to be sent. It is deleted when {@link #complete} was
 * called and each stream is finished. Thread-safe.
 */
final class Exported {
    private static final Logger logger = LoggerFactory.getLogger(Exported.class);

    private final Path directory;
    // One for complete().
    private final AtomicInteger holders = new AtomicInteger(1);

    Exported(Path directory) {
        this.directory = directory;
    }

    /** A stream of one of them, which holds the directory. */
    OutgoingStream stream(OutgoingStream file) {
        holders.incrementAndGet();
        return new Stream(file);
    }

    /** No more streams are made. Once. */
    void complete() {
        release();
    }

    private void release() {
        if (holders.decrementAndGet() > 0) return;
        try {
            StoreDirectory.deleteTree(directory);
        } catch (FSError e) {
            logger.error(
                    "{} was sent and could not be deleted; it is at the next start", directory, e);
        }
    }

    private final class Stream implements OutgoingStream {
        private final OutgoingStream file;
        private final AtomicBoolean finished = new AtomicBoolean();

        Stream(OutgoingStream file) {
            this.file = file;
        }

        @Override
        public void write(StreamSession session, StreamingDataOutputPlus output, int version)
                throws IOException {
            file.write(session, output, version);
        }

        @Override
        public void finish() {
            if (!finished.compareAndSet(false, true)) return;
            try {
                file.finish();
            } finally {
                release();
            }
        }

        @Override
        public long getRepairedAt() {
            return file.getRepairedAt();
        }

        @Override
        public TimeUUID getPendingRepair() {
            return file.getPendingRepair();
        }

        @Override
        public String getName() {
            return file.getName();
        }

        @Override
        public long getEstimatedSize() {
            return file.getEstimatedSize();
        }

        @Override
        public TableId getTableId() {
            return file.getTableId();
        }

        @Override
        public int getNumFiles() {
            return file.getNumFiles();
        }
    }
}
