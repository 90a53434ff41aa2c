// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipInputStream;
import org.jspecify.annotations.Nullable;

/**
 * An audit log as {@code FileAuditLogger} has it written by logback: lines, among which there may
 * be others, as in a node's {@code system.log}. A line that begins neither an entry nor another
 * line of Cassandra's log goes on with the statement of the entry before it. What a crash or a cut
 * copy has torn is passed over: the last entry of a file, or the rest of a compressed one.
 */
final class AuditText implements NodeLog {
    /** Of the files of a directory. */
    static final String NAME = "audit";

    /** How Cassandra's logback.xml begins each line. */
    private static final Pattern OTHER =
            Pattern.compile("(?:TRACE|DEBUG|INFO|WARN|ERROR)\\s+\\[.*");

    /** What stands in place of bytes that are no text. */
    private static final char NO_TEXT = '\ufffd';

    private static final int MARK = 4;

    private final AuditEntries entries = new AuditEntries();
    private final List<String> losses = new ArrayList<>();
    private final List<Path> files;
    private int nextFile;
    private @Nullable FileEntries reader;
    private long read;
    private long unread;
    private String firstUnread = "";

    /**
     * @param path a file, or a directory with files of this log only
     * @param mayBeEmpty logback makes its file also where the log is written in another form
     * @throws QueryLog.QueryLogException if there are no entries, and must be some
     */
    AuditText(Path path, boolean mayBeEmpty) {
        // Rolled files are named in more ways than one.
        Map<Long, List<Path>> byTime = new TreeMap<>();
        for (Path file : files(path)) {
            try (FileEntries first = new FileEntries(file)) {
                String entry = first.next();
                if (entry == null) continue;
                Matcher begin = AuditEntries.BEGIN.matcher(entry);
                if (!begin.lookingAt()) throw new IOException("an entry without a time");
                byTime.computeIfAbsent(Long.valueOf(begin.group(1)), time -> new ArrayList<>())
                        .add(file);
            } catch (IOException e) {
                losses.add(file + " cannot be read: " + e);
            }
        }
        files = byTime.values().stream().flatMap(List::stream).toList();
        if (files.isEmpty() && !mayBeEmpty)
            throw new QueryLog.QueryLogException(
                    path
                            + " has no whole entry of an audit log ('user:...|host:...', as"
                            + " FileAuditLogger writes it)"
                            + (losses.isEmpty() ? "" : "; " + String.join("; ", losses))
                            + ". Give the file of such a log, or the directory of a full query log"
                            + " (nodetool enablefullquerylog) or of a BinAuditLogger.",
                    null);
    }

    private static List<Path> files(Path path) {
        if (!Files.isDirectory(path)) return List.of(path);
        try (Stream<Path> all = Files.list(path)) {
            return all.filter(Files::isRegularFile)
                    .filter(file -> file.getFileName().toString().startsWith(NAME))
                    .sorted()
                    .toList();
        } catch (IOException e) {
            throw new QueryLog.QueryLogException("cannot read " + path + ": " + e, e);
        }
    }

    @Override
    public @Nullable LoggedQuery next() {
        LoggedQuery query = null;
        while (query == null) {
            String entry = nextEntry();
            if (entry == null) return entries.end();
            try {
                if (entry.indexOf(NO_TEXT) >= 0)
                    throw new IllegalArgumentException("bytes that are no UTF-8");
                query = entries.take(entry);
            } catch (IllegalArgumentException e) {
                if (unread++ == 0) firstUnread = place() + ": " + e.getMessage();
            }
        }
        read++;
        return query;
    }

    private @Nullable String nextEntry() {
        while (true) {
            try {
                if (reader == null) {
                    if (nextFile == files.size()) return null;
                    reader = new FileEntries(files.get(nextFile++));
                }
                String entry = reader.next();
                if (entry != null) return entry;
            } catch (IOException e) {
                losses.add("the rest of a file cannot be read, " + place() + ": " + e);
            }
            close();
        }
    }

    private String place() {
        return "behind request " + read + " of " + files.get(nextFile - 1);
    }

    @Override
    public List<String> losses() {
        List<String> all = new ArrayList<>(losses);
        if (unread > 0) all.add(unread + " entries cannot be read, the first " + firstUnread);
        return all;
    }

    @Override
    public void close() {
        try {
            if (reader != null) reader.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        reader = null;
    }

    /** The entries of one file. */
    private static final class FileEntries implements AutoCloseable {
        private final BufferedReader in;
        private @Nullable StringBuilder begun;
        private boolean isCut;

        FileEntries(Path file) throws IOException {
            InputStream bytes = new BufferedInputStream(Files.newInputStream(file));
            try {
                in =
                        new BufferedReader(
                                new InputStreamReader(unpacked(bytes), StandardCharsets.UTF_8));
            } catch (IOException e) {
                bytes.close();
                throw e;
            }
        }

        /** Of what logback compresses when it rolls a file. */
        private static InputStream unpacked(InputStream bytes) throws IOException {
            bytes.mark(MARK);
            byte[] mark = bytes.readNBytes(MARK);
            bytes.reset();
            String first = new String(mark, StandardCharsets.ISO_8859_1);
            if (first.startsWith("\u001f\u008b")) return new GZIPInputStream(bytes);
            if (!first.equals("PK\u0003\u0004")) return bytes;
            ZipInputStream zip = new ZipInputStream(bytes);
            if (zip.getNextEntry() == null) throw new EOFException("nothing is in it");
            return zip;
        }

        /** The next one, from its user on; null at the end. */
        @Nullable String next() throws IOException {
            StringBuilder line = new StringBuilder();
            while (true) {
                line.setLength(0);
                if (isCut) throw new EOFException("the file ends within a line");
                boolean isEnded = line(line);
                isCut = !isEnded && line.length() > 0;
                StringBuilder done = begun;
                Matcher begin = AuditEntries.BEGIN.matcher(line);
                if (begin.find()) {
                    begun = new StringBuilder(line.substring(begin.start()));
                } else if ((line.isEmpty() && !isEnded) || OTHER.matcher(line).matches()) {
                    begun = null;
                } else if (done != null) {
                    done.append('\n').append(line);
                    continue;
                }
                if (done != null) return done.toString();
                if (line.isEmpty() && !isEnded) return null;
            }
        }

        /** Reads a line; false if the file ends before it does. */
        private boolean line(StringBuilder line) throws IOException {
            // Not by readLine: the other ends of lines that it knows may be a statement's own.
            for (int c = in.read(); c >= 0; c = in.read()) {
                if (c == '\n') return true;
                line.append((char) c);
            }
            return false;
        }

        @Override
        public void close() throws IOException {
            in.close();
        }
    }
}
