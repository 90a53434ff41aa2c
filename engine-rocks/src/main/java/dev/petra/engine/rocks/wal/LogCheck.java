// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Checks whether the logs of a store and its MANIFEST have everything that was synced, before
 * RocksDB opens them: RocksDB takes damage for the torn end that a crash leaves, ignores what is
 * behind it, and deletes the logs, and the data files that it did not find named. Reads each log
 * that is needed; changes nothing where something is missing.
 */
public final class LogCheck {
    private static final Logger logger = LoggerFactory.getLogger(LogCheck.class);

    /** Sequence number and count of entries, at the beginning of each record. */
    static final int BATCH_HEADER = 8 + 4;

    /** The bytes are not those that were written; any other error says nothing about the data. */
    public static final class Damage extends IOException {
        @java.io.Serial private static final long serialVersionUID = 1;

        Damage(String message) {
            super(message);
        }

        Damage(String message, Throwable cause) {
            super(message, cause);
        }
    }

    private LogCheck() {}

    /**
     * Looks at the logs of a store, and has RocksDB notice where they end ({@link TornEnd}).
     *
     * @throws Damage naming the file that is damaged, and where
     * @throws IOException if it cannot be looked at
     */
    public static void run(Path directory) throws IOException {
        SyncMark.Known known = SyncMark.read(directory);
        Manifest manifest;
        try {
            manifest = Manifest.read(directory);
        } catch (Damage e) {
            if (known != null) throw e;
            // The operator removed the note, to open the store as far as RocksDB can.
            logger.warn(
                    "The logs in {} are not checked before RocksDB reads them: there is no valid"
                            + " file SYNCED, and the manifest is damaged",
                    directory,
                    e);
            return;
        }
        if (known != null) check(directory, manifest, known);
        TornEnd.mark(directory, manifest);
    }

    private static void check(Path directory, Manifest manifest, SyncMark.Known known)
            throws IOException {
        checkManifest(directory, manifest, known);
        for (int i = 0; i < known.logs().size(); i++) {
            SyncMark.Log log = known.logs().get(i);
            boolean isLast = i == known.logs().size() - 1;
            long last = isLast ? known.sequence() : known.logs().get(i + 1).first() - 1;
            if (log.number() >= manifest.firstLog()) check(directory, log, last);
        }
    }

    /** Looks whether a MANIFEST has all that was synced of it. */
    static void checkManifest(Path directory, Manifest manifest, SyncMark.Known known)
            throws Damage {
        if (manifest.firstLog() < known.firstLog())
            throw new Damage(
                    manifest.file()
                            + " has lost its end: it asks for logs from "
                            + manifest.firstLog()
                            + " on, and had asked for those from "
                            + known.firstLog()
                            + " on"
                            + mend(directory));
        Manifest.End end = manifest.end();
        if (end.number() == known.manifest().number() && end.bytes() < known.manifest().bytes())
            throw new Damage(
                    manifest.file()
                            + " cannot be read from byte "
                            + end.bytes()
                            + " on, and was synced up to byte "
                            + known.manifest().bytes()
                            + mend(directory));
    }

    private static void check(Path directory, SyncMark.Log log, long last) throws IOException {
        Path file = log.in(directory);
        if (!Files.exists(file))
            throw new Damage(
                    file
                            + " is missing, with the writes "
                            + log.first()
                            + " to "
                            + last
                            + mend(directory));
        try (LogRecords records = new LogRecords(file, log.number(), BATCH_HEADER)) {
            long reached = log.first() - 1;
            while (reached < last) {
                boolean whole = records.next();
                ByteBuffer batch = records.record();
                if (!whole || batch.remaining() < BATCH_HEADER || batch.getLong(0) > reached + 1)
                    throw new Damage(
                            file
                                    + " cannot be read from byte "
                                    + records.offset()
                                    + " on, where the writes "
                                    + (reached + 1)
                                    + " to "
                                    + last
                                    + " were synced"
                                    + mend(directory));
                reached = batch.getLong() + Integer.toUnsignedLong(batch.getInt()) - 1;
            }
        }
    }

    private static String mend(Path directory) {
        return ". Nothing was changed. To open it with what comes before the damage, and lose on"
                + " this node what comes behind, remove "
                + directory.resolve(SyncMark.NAME)
                + " and restart the node, then repair the table";
    }

    /** The first sequence number in a log; 0 if there is no record in it yet. */
    static long firstSequence(Path directory, long number) throws IOException {
        try (LogRecords records =
                new LogRecords(new SyncMark.Log(number, 0).in(directory), number, BATCH_HEADER)) {
            return records.next() && records.record().remaining() == BATCH_HEADER
                    ? records.record().getLong()
                    : 0;
        }
    }
}
