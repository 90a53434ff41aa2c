// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.LongSummaryStatistics;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a database's MANIFEST says about its logs: from which number on they hold what is in no data
 * file yet.
 *
 * @param file that was read
 * @param firstLog whose records are needed
 * @param lastLog before which some column family needs none
 * @param lastSequence that had been used when it was written last; all before {@code firstLog} is
 *     not above it
 * @param end of what could be read
 */
record Manifest(Path file, long firstLog, long lastLog, long lastSequence, End end) {
    private static final String PREFIX = "MANIFEST-";

    private static final int COMPARATOR = 1;
    private static final int LOG_NUMBER = 2;
    private static final int NEXT_FILE_NUMBER = 3;
    private static final int LAST_SEQUENCE = 4;
    private static final int COMPACT_CURSOR = 5;
    private static final int DELETED_FILE = 6;
    private static final int PREVIOUS_LOG_NUMBER = 9;
    private static final int FIRST_LOG_TO_KEEP = 10;
    private static final int NEW_FILE = 103;
    private static final int COLUMN_FAMILY = 200;
    private static final int COLUMN_FAMILY_ADDED = 201;
    private static final int COLUMN_FAMILY_DROPPED = 202;
    private static final int HIGHEST_COLUMN_FAMILY = 203;
    private static final int IN_GROUP = 300;
    private static final int BLOB_FILE = 400;
    private static final int BLOB_GARBAGE = 401;

    /**
     * A bit in the tag of an entry that an older RocksDB may skip: its length follows, then its
     * bytes.
     */
    private static final int MAY_BE_IGNORED = 1 << 13;

    private static final int NEW_FILE_END = 1;
    private static final int NEW_FILE_FIRST_LOG_TO_KEEP = 3;
    private static final int BLOB_FILE_END = 0;

    /** The bytes behind a key in a MANIFEST: its sequence number and its kind. */
    private static final int KEY_TRAILER = 8;

    /**
     * A data file.
     *
     * @param smallest its first key
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    record DataFile(long number, long bytes, byte[] smallest) {}

    /**
     * Where the whole records of a MANIFEST end.
     *
     * @param number of the MANIFEST; negative if none is known
     * @param bytes before the end
     */
    record End(long number, long bytes) {
        static final End UNKNOWN = new End(-1, 0);
    }

    /**
     * Reads the one that CURRENT names, as far as it can be read: what comes behind is torn off,
     * for RocksDB too.
     *
     * @throws LogCheck.Damage if it is missing, or has what this does not know
     * @throws IOException if it cannot be read
     */
    static Manifest read(Path directory) throws IOException {
        Path file = current(directory);
        Reading reading = new Reading(null);
        long end = read(file, reading);
        LongSummaryStatistics needed =
                reading.families.values().stream().mapToLong(Long::longValue).summaryStatistics();
        return new Manifest(
                file,
                Math.max(reading.firstLogToKeep, needed.getCount() == 0 ? 0 : needed.getMin()),
                needed.getMax(),
                reading.lastSequence,
                new End(number(file), end));
    }

    /**
     * Makes the one that CURRENT names durable, as far as it is whole by now. While the database is
     * open.
     *
     * @param known of it or of another: what was seen before is not read again
     * @throws IOException if it cannot be read or synced, also where RocksDB has just begun another
     */
    static End force(Path directory, End known) throws IOException {
        Path file = current(directory);
        long number = number(file);
        long end;
        try (LogRecords records =
                new LogRecords(file, 0, 0, number == known.number ? known.bytes : 0)) {
            while (records.next()) {}
            end = records.offset();
        }
        // RocksDB syncs each record; the last one may be one that is being written.
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
            channel.force(false);
        }
        return new End(number, end);
    }

    private static long number(Path file) throws LogCheck.Damage {
        String name = String.valueOf(file.getFileName());
        try {
            if (name.startsWith(PREFIX)) return Long.parseLong(name.substring(PREFIX.length()));
        } catch (NumberFormatException e) {
            throw new LogCheck.Damage(file + " has no number", e);
        }
        throw new LogCheck.Damage(file + " is no MANIFEST");
    }

    /** The data files that it names; the same errors. */
    static List<DataFile> dataFiles(Path directory) throws IOException {
        Map<Long, Map<Long, DataFile>> files = new HashMap<>();
        var unused = read(current(directory), new Reading(files));
        return files.values().stream().flatMap(each -> each.values().stream()).toList();
    }

    private static Path current(Path directory) throws IOException {
        Path current = directory.resolve("CURRENT");
        requireThere(current);
        Path file = named(current);
        requireThere(file);
        return file;
    }

    /** Returns where it ends. */
    private static long read(Path file, Reading reading) throws IOException {
        try (LogRecords records = new LogRecords(file, 0, Integer.MAX_VALUE)) {
            while (records.next()) reading.edit(records.record());
            return records.offset();
        } catch (BufferUnderflowException
                | IndexOutOfBoundsException
                | IllegalArgumentException e) {
            throw new LogCheck.Damage(file + " is not understood: " + e.getMessage(), e);
        }
    }

    private static void requireThere(Path file) throws IOException {
        if (!Files.exists(file)) throw new LogCheck.Damage(file + " is missing");
    }

    private static Path named(Path current) throws IOException {
        try {
            return current.resolveSibling(Files.readString(current).strip());
        } catch (CharacterCodingException | InvalidPathException e) {
            throw new LogCheck.Damage(current + " names no file", e);
        }
    }

    private static final class Reading {
        /** Which log is the first that a column family needs. */
        final Map<Long, Long> families = new HashMap<>();

        /** Data files of each column family by their numbers; null if they are not asked for. */
        final @Nullable Map<Long, Map<Long, DataFile>> files;

        /** Of the edit that is being read, which says last what family it is of. */
        private final List<DataFile> added = new ArrayList<>();

        private final List<Long> deleted = new ArrayList<>();

        long firstLogToKeep;
        long lastSequence;

        Reading(@Nullable Map<Long, Map<Long, DataFile>> files) {
            this.files = files;
        }

        void edit(ByteBuffer in) {
            long family = 0;
            long log = -1;
            boolean dropped = false;
            added.clear();
            deleted.clear();
            while (in.hasRemaining()) {
                int tag = (int) varint(in);
                switch (tag) {
                    case LOG_NUMBER -> log = varint(in);
                    case COLUMN_FAMILY -> family = varint(in);
                    case COLUMN_FAMILY_DROPPED -> dropped = true;
                    case FIRST_LOG_TO_KEEP -> keepFrom(varint(in));
                    case LAST_SEQUENCE -> lastSequence = Math.max(lastSequence, varint(in));
                    case NEXT_FILE_NUMBER, PREVIOUS_LOG_NUMBER, HIGHEST_COLUMN_FAMILY, IN_GROUP ->
                            varint(in);
                    case COMPARATOR, COLUMN_FAMILY_ADDED -> skip(in);
                    case COMPACT_CURSOR -> {
                        varint(in);
                        skip(in);
                    }
                    case DELETED_FILE -> {
                        varint(in);
                        deleted.add(varint(in));
                    }
                    case NEW_FILE -> newFile(in);
                    case BLOB_FILE -> {
                        varints(in, 3);
                        skip(in);
                        skip(in);
                        fields(in);
                    }
                    case BLOB_GARBAGE -> {
                        varints(in, 3);
                        fields(in);
                    }
                    default -> {
                        if ((tag & MAY_BE_IGNORED) == 0)
                            throw new IllegalArgumentException("an entry of kind " + tag);
                        skip(in);
                    }
                }
            }
            if (dropped) families.remove(family);
            else if (log >= 0) families.merge(family, log, Math::max);
            if (files != null) change(files, family, dropped);
        }

        private void change(Map<Long, Map<Long, DataFile>> all, long family, boolean dropped) {
            Map<Long, DataFile> of = all.computeIfAbsent(family, number -> new HashMap<>());
            // A file that changes its level is in both.
            deleted.forEach(of::remove);
            for (DataFile file : added) of.put(file.number, file);
            if (dropped) all.remove(family);
        }

        private void newFile(ByteBuffer in) {
            varint(in);
            long number = varint(in);
            long bytes = varint(in);
            int at = in.position();
            skip(in);
            if (files != null) added.add(new DataFile(number, bytes, key(in, at)));
            skip(in);
            varints(in, 2);
            for (long field = varint(in); field != NEW_FILE_END; field = varint(in)) {
                int length = (int) varint(in);
                if (field == NEW_FILE_FIRST_LOG_TO_KEEP) keepFrom(in.getLong(in.position()));
                in.position(in.position() + length);
            }
        }

        /** The key of an entry's that lies there, behind its length. */
        private static byte[] key(ByteBuffer in, int at) {
            ByteBuffer key = in.duplicate().position(at);
            byte[] bytes = new byte[(int) varint(key)];
            key.get(bytes);
            return Arrays.copyOf(bytes, bytes.length - KEY_TRAILER);
        }

        private void keepFrom(long log) {
            firstLogToKeep = Math.max(firstLogToKeep, log);
        }

        private static void fields(ByteBuffer in) {
            while (varint(in) != BLOB_FILE_END) skip(in);
        }

        private static void varints(ByteBuffer in, int count) {
            for (int i = 0; i < count; i++) varint(in);
        }

        private static void skip(ByteBuffer in) {
            int length = (int) varint(in);
            in.position(in.position() + length);
        }

        private static long varint(ByteBuffer in) {
            long value = 0;
            for (int shift = 0; ; shift += 7) {
                byte next = in.get();
                value |= (next & 0x7FL) << shift;
                if (next >= 0) return value;
            }
        }
    }
}
