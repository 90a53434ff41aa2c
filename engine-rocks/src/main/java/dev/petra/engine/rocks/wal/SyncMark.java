// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ClosedByInterruptException;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.zip.CRC32C;
import org.jspecify.annotations.Nullable;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The file {@value #NAME}: up to where the logs of a store, and its MANIFEST, are known to be
 * synced. Behind that, what a crash left of them is a torn end; before it, what cannot be read is
 * damage ({@link LogCheck}).
 *
 * <p>It is written after each sync and not synced itself, but now and then: what it says is true
 * whenever it was written, and an older one only tells less. Two places are written in turns, each
 * with its checksum, so that one is always whole.
 */
public final class SyncMark implements AutoCloseable {
    private static final Logger logger = LoggerFactory.getLogger(SyncMark.class);

    static final String NAME = "SYNCED";

    private static final Pattern LOG_NAME = Pattern.compile("[0-9]{6,18}\\.log");

    private static final int PLACE = 4 << 10;
    private static final int MAGIC = 0x53594e32;

    /** Without the end of the MANIFEST. */
    private static final int OLD_MAGIC = 0x53594e31;

    /** All but the logs: magic, count, sequence number, first log, how many, checksum. */
    private static final int OLD_FIXED = 4 + 8 + 8 + 8 + 4 + 4;

    private static final int FIXED = OLD_FIXED + 8 + 8;

    private static final int MOST_LOGS = (PLACE - FIXED) / 16;
    private static final long FORCE_EVERY_NANOS = TimeUnit.SECONDS.toNanos(10);

    /**
     * A log with records.
     *
     * @param first sequence number in it
     */
    record Log(long number, long first) {
        Path in(Path directory) {
            return directory.resolve(String.format("%06d.log", number));
        }
    }

    /**
     * What is known.
     *
     * @param sequence that is durable, with all before
     * @param firstLog that was needed then
     * @param logs that hold them, in their order
     * @param manifest up to where it was synced
     */
    record Known(long count, long sequence, long firstLog, List<Log> logs, Manifest.End manifest) {}

    private final Path directory;
    private final ByteBuffer bytes =
            ByteBuffer.allocateDirect(PLACE).order(ByteOrder.LITTLE_ENDIAN);

    /** By number, with the first sequence number; 0 while there is none. */
    private final TreeMap<Long, Long> logs = new TreeMap<>();

    /** The database whose logs are known as of {@link #listedVersion}; null if none are. */
    private @Nullable RocksDB listed;

    private long listedVersion;
    private long listings;
    private @Nullable FileChannel channel;
    private boolean closed;
    private long count;
    private long firstLog;
    private Manifest.End manifest = Manifest.End.UNKNOWN;

    /** The value of {@link #listings} when the MANIFEST was looked at. */
    private long lookedAt = -1;

    /** Whether files were ingested since: nothing but the MANIFEST tells of them. */
    private boolean ingested;

    private long forcedAt = System.nanoTime() - FORCE_EVERY_NANOS;
    private boolean failing;

    private volatile long marked = -1;

    public SyncMark(Path directory) {
        this.directory = directory;
    }

    /** Whether {@link #set} would say nothing new. */
    public boolean covers(long sequence) {
        return sequence <= marked;
    }

    /**
     * Says that everything up to a sequence number is durable.
     *
     * @param families all column families, that of rows first
     * @param thorough not only for this write: which logs are needed is looked up as well
     * @return false if it could not be written
     */
    public synchronized boolean set(
            RocksDB db, List<ColumnFamilyHandle> families, long sequence, boolean thorough) {
        if (covers(sequence) && !(thorough && ingested)) return true;
        // Whoever still writes may outlive the wait for that; the file would stay open.
        if (closed) return false;
        try {
            uninterrupted(() -> setNow(db, families, sequence, thorough));
            return true;
        } catch (IOException | RocksDBException e) {
            failed(e);
            return false;
        }
    }

    private void setNow(
            RocksDB db, List<ColumnFamilyHandle> families, long sequence, boolean thorough)
            throws IOException, RocksDBException {
        if (thorough)
            firstLog = db.getLongProperty(families.get(0), "rocksdb.min-log-number-to-keep");
        long durable = Math.max(sequence, marked);
        List<Log> needed = logs(db, families, durable);
        boolean urgent = thorough && ingested;
        if (urgent || (thorough && lookedAt != listings)) lookAtManifest();
        open();
        write(new Known(count + 1, durable, firstLog, needed, manifest));
        force(urgent);
        if (urgent) ingested = false;
        marked = durable;
        failing = false;
    }

    /** Something to do with files. */
    private interface Work<E extends Exception> {
        void run() throws IOException, E;
    }

    /**
     * An interrupt ends no such work, and is no error of the disk: it closes the file that is read
     * or written just then, and the work is done once more. The thread stays interrupted.
     */
    private static <E extends Exception> void uninterrupted(Work<E> work) throws IOException, E {
        boolean interrupted = false;
        try {
            while (true) {
                interrupted |= Thread.interrupted();
                try {
                    work.run();
                    return;
                } catch (ClosedByInterruptException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /**
     * Says that files were ingested, which are in the MANIFEST by now, and that everything up to a
     * sequence number is durable; durably. If that fails, the next thorough {@link #set} says it.
     */
    public synchronized void ingested(
            RocksDB db, List<ColumnFamilyHandle> families, long sequence) {
        ingested = true;
        var unused = set(db, families, sequence, true);
    }

    /**
     * Says that the database was opened, which begins another MANIFEST. What is in its logs may
     * still be as durable as it was before.
     */
    public synchronized void opened() {
        try {
            if (!closed) uninterrupted(this::openedNow);
        } catch (IOException e) {
            failed(e);
        }
    }

    private void openedNow() throws IOException {
        Known before = read(directory);
        // Nothing was synced yet, or the operator removed it: nothing is said of logs.
        if (before == null) before = new Known(0, 0, 0, List.of(), Manifest.End.UNKNOWN);
        lookAtManifest();
        open();
        write(new Known(count + 1, before.sequence, before.firstLog, before.logs, manifest));
        // A table that is not written keeps no file open for it.
        closeFile();
    }

    private void lookAtManifest() throws IOException {
        try {
            manifest = Manifest.force(directory, manifest);
        } catch (NoSuchFileException | LogCheck.Damage e) {
            logger.debug("A MANIFEST went since it was named", e);
            manifest = Manifest.force(directory, manifest);
        }
        lookedAt = listings;
    }

    private void failed(Exception e) {
        // The log is synced; only the note of it is missing, by which damage is found later.
        if (!failing)
            logger.error(
                    "{} cannot be written. Writes are durable all the same, but if the log or the"
                            + " MANIFEST is damaged later, that may be taken for the torn end that"
                            + " a crash leaves. Check the disk; the file is written again as soon"
                            + " as possible",
                    directory.resolve(NAME),
                    e);
        failing = true;
        closeFile();
    }

    /** Who writes next opens it. */
    private void closeFile() {
        FileChannel file = channel;
        channel = null;
        if (file == null) return;
        try {
            file.close();
        } catch (IOException e) {
            logger.debug("{} cannot be closed", directory.resolve(NAME), e);
        }
    }

    @SuppressWarnings("ReferenceEquality") // whether the database was opened anew
    private List<Log> logs(RocksDB db, List<ColumnFamilyHandle> families, long sequence)
            throws IOException, RocksDBException {
        long version = version(db, families);
        if (db != listed || version != listedVersion) list();
        listed = db;
        listedVersion = version;
        try {
            return begun(sequence);
        } catch (NoSuchFileException e) {
            logger.debug("A log went since it was listed", e);
            list();
            return begun(sequence);
        }
    }

    /**
     * What changes with each log: RocksDB begins one only together with a write buffer, and nothing
     * is written to either before this has grown.
     */
    public static long version(RocksDB db, List<ColumnFamilyHandle> families)
            throws RocksDBException {
        long version = 0;
        for (ColumnFamilyHandle family : families)
            version += db.getLongProperty(family, "rocksdb.current-super-version-number");
        return version;
    }

    private void list() throws IOException {
        listings++;
        TreeMap<Long, Long> found = new TreeMap<>();
        for (long number : numbers(directory))
            if (number >= firstLog) found.put(number, logs.getOrDefault(number, 0L));
        logs.clear();
        logs.putAll(found);
    }

    /** How often the directory was listed: not for each sync. */
    synchronized long listings() {
        return listings;
    }

    /** The numbers of the logs in a directory, in no order. */
    static List<Long> numbers(Path directory) throws IOException {
        List<Long> numbers = new ArrayList<>();
        try (var files = Files.newDirectoryStream(directory, "*.log")) {
            for (Path file : files) {
                String name = String.valueOf(file.getFileName());
                // RocksDB ignores other files there, too.
                if (LOG_NAME.matcher(name).matches())
                    numbers.add(Long.parseLong(name.substring(0, name.length() - ".log".length())));
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
        return numbers;
    }

    /** How many logs there are from this number on. */
    public static long logsFrom(Path directory, long number) throws IOException {
        return numbers(directory).stream().filter(each -> each >= number).count();
    }

    private List<Log> begun(long sequence) throws IOException {
        List<Log> begun = new ArrayList<>();
        for (var log : logs.entrySet()) {
            if (log.getValue() == 0) log.setValue(LogCheck.firstSequence(directory, log.getKey()));
            long first = log.getValue();
            if (first != 0 && first <= sequence) begun.add(new Log(log.getKey(), first));
        }
        return begun.size() <= MOST_LOGS
                ? begun
                : begun.subList(begun.size() - MOST_LOGS, begun.size());
    }

    /** Opens it, unless it is open. */
    private void open() throws IOException {
        if (channel != null && channel.isOpen()) return;
        Known newest = read(directory);
        if (newest != null) count = Math.max(count, newest.count);
        channel =
                FileChannel.open(
                        directory.resolve(NAME),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE);
    }

    private void write(Known known) throws IOException {
        FileChannel file = Objects.requireNonNull(channel);
        bytes.clear();
        bytes.putInt(MAGIC).putLong(known.count).putLong(known.sequence).putLong(known.firstLog);
        bytes.putInt(known.logs.size());
        for (Log log : known.logs) bytes.putLong(log.number).putLong(log.first);
        bytes.putLong(known.manifest.number()).putLong(known.manifest.bytes());
        bytes.putInt(checksum(bytes.duplicate().flip())).flip();
        long at = known.count % 2 * PLACE;
        while (bytes.hasRemaining()) file.write(bytes, at + bytes.position());
        // Of one that failed half-way the place is written again, and the other one stays whole.
        count = known.count;
    }

    /** What was written becomes durable, if it is time for that. */
    private void force(boolean urgent) throws IOException {
        long now = System.nanoTime();
        if (!urgent && now - forcedAt < FORCE_EVERY_NANOS) return;
        Objects.requireNonNull(channel).force(false);
        forcedAt = now;
    }

    private static int checksum(ByteBuffer bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return (int) crc.getValue();
    }

    /** The newest that is whole; null if there is none. */
    static @Nullable Known read(Path directory) throws IOException {
        byte[] bytes;
        try {
            bytes = Files.readAllBytes(directory.resolve(NAME));
        } catch (NoSuchFileException e) {
            return null;
        }
        Known newest = null;
        for (int at = 0; at < bytes.length; at += PLACE) {
            Known known =
                    decoded(
                            ByteBuffer.wrap(bytes, at, Math.min(PLACE, bytes.length - at))
                                    .slice()
                                    .order(ByteOrder.LITTLE_ENDIAN));
            if (known != null && (newest == null || newest.count < known.count)) newest = known;
        }
        return newest;
    }

    private static @Nullable Known decoded(ByteBuffer in) {
        ByteBuffer all = in.duplicate();
        if (in.remaining() < OLD_FIXED) return null;
        int magic = in.getInt();
        if (magic != MAGIC && magic != OLD_MAGIC) return null;
        int end = magic == MAGIC ? 8 + 8 : 0;
        long count = in.getLong();
        long sequence = in.getLong();
        long firstLog = in.getLong();
        int size = in.getInt();
        if (size < 0 || size > PLACE / 16 || in.remaining() < size * 16 + end + 4) return null;
        List<Log> logs = new ArrayList<>();
        for (int i = 0; i < size; i++) logs.add(new Log(in.getLong(), in.getLong()));
        Manifest.End manifest =
                end == 0 ? Manifest.End.UNKNOWN : new Manifest.End(in.getLong(), in.getLong());
        if (checksum(all.limit(in.position())) != in.getInt()) return null;
        return new Known(count, sequence, firstLog, logs, manifest);
    }

    @Override
    public synchronized void close() {
        closed = true;
        if (channel == null) return;
        try {
            uninterrupted(
                    () -> {
                        open();
                        force(true);
                    });
        } catch (IOException e) {
            logger.error(
                    "{} could not be synced when the store was closed: damage to the last writes"
                            + " in the log may be taken for the torn end that a crash leaves",
                    directory.resolve(NAME),
                    e);
        } finally {
            closeFile();
        }
    }
}
