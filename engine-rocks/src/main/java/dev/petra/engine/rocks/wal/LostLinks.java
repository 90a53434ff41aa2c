// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import dev.petra.engine.DurableFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDBException;
import org.rocksdb.SstFileReader;
import org.rocksdb.SstFileReaderIterator;
import org.rocksdb.StringAppendOperator;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Links files again that an ingest has linked into a store and, having failed, unlinked. Where the
 * write of the MANIFEST is what failed, the MANIFEST may name them all the same, also on the disk,
 * and without them the store would not open. RocksDB sees to that itself for the files that a flush
 * or a compaction makes, not for those of an ingest ({@code
 * ExternalSstFileIngestionJob::DeleteInternalFiles}).
 */
public final class LostLinks {
    private static final Logger logger = LoggerFactory.getLogger(LostLinks.class);

    private LostLinks() {}

    /**
     * A file that was to be ingested.
     *
     * @param smallest its first key
     */
    @SuppressWarnings("ArrayRecordComponent") // never compared
    public record Ingested(Path path, byte[] smallest) {
        /**
         * Reads the key, of a file that is no database's yet, and the last one, as RocksDB does
         * when it takes the file.
         */
        public static Ingested ofReadable(Path path) throws RocksDBException {
            return of(path, true);
        }

        private static Ingested of(Path path, boolean lastToo) throws RocksDBException {
            // Any operator will do: the values are not looked at.
            try (StringAppendOperator merge = new StringAppendOperator();
                    Options options = new Options().setMergeOperator(merge);
                    ReadOptions how =
                            new ReadOptions()
                                    .setVerifyChecksums(true)
                                    .setTotalOrderSeek(true)
                                    .setFillCache(false);
                    SstFileReader reader = new SstFileReader(options)) {
                reader.open(path.toString());
                try (SstFileReaderIterator it = reader.newIterator(how)) {
                    it.seekToFirst();
                    it.status();
                    byte[] smallest = it.isValid() ? it.key() : new byte[0];
                    if (lastToo) {
                        it.seekToLast();
                        it.status();
                    }
                    return new Ingested(path, smallest);
                }
            }
        }
    }

    /**
     * Links those that the MANIFEST names and that are not there.
     *
     * @return how many
     * @throws IOException if the MANIFEST cannot be read, or a file cannot be linked
     */
    public static int restore(Path store, List<Ingested> files) throws IOException {
        return restore(store, missing(store), files);
    }

    /**
     * The same of a store that nobody has open, whose process may have ended before it did so.
     *
     * @param staged files of streams, whole or not
     * @return whether none of them is needed any more
     */
    public static boolean restoreStaged(Path store, List<Path> staged) throws IOException {
        if (staged.isEmpty()) return true;
        SyncMark.Known known = SyncMark.read(store);
        Map<Path, Manifest.DataFile> missing;
        try {
            // What comes behind damage is not read, and may name them.
            if (known != null) LogCheck.checkManifest(store, Manifest.read(store), known);
            missing = missing(store);
        } catch (LogCheck.Damage e) {
            // Without that note the store is opened as far as RocksDB can, whatever is lost.
            boolean isGivenUp = known == null;
            logger.warn(
                    "It is not known whether the MANIFEST in {} names files of a stream that"
                            + " failed. {}",
                    store,
                    isGivenUp
                            ? "They are deleted, because there is no valid file SYNCED"
                            : "They stay until it can be read",
                    e);
            return isGivenUp;
        }
        Set<Long> sizes =
                missing.values().stream().map(Manifest.DataFile::bytes).collect(Collectors.toSet());
        List<Ingested> files = new ArrayList<>();
        boolean areRead = true;
        for (Path file : staged)
            if (sizes.contains(Files.size(file)))
                try {
                    files.add(Ingested.of(file, false));
                } catch (RocksDBException e) {
                    areRead = false;
                    logger.warn("{} cannot be read; it stays if it may be missing", file, e);
                }
        int linked = restore(store, missing, files);
        if (linked > 0)
            logger.warn(
                    "A stream into the store in {} failed before its process ended: {} of its"
                            + " files, which the MANIFEST names, are live",
                    store,
                    linked);
        return areRead || linked == missing.size();
    }

    private static int restore(
            Path store, Map<Path, Manifest.DataFile> missing, List<Ingested> files)
            throws IOException {
        int linked = 0;
        for (Map.Entry<Path, Manifest.DataFile> each : missing.entrySet())
            for (Ingested file : files)
                if (Files.size(file.path) == each.getValue().bytes()
                        && Arrays.equals(file.smallest, each.getValue().smallest())) {
                    Files.createLink(each.getKey(), file.path);
                    linked++;
                    break;
                }
        if (linked > 0) DurableFile.syncNames(store);
        return linked;
    }

    /** What the MANIFEST names, by where it should be. */
    private static Map<Path, Manifest.DataFile> missing(Path store) throws IOException {
        Map<Path, Manifest.DataFile> missing = new HashMap<>();
        for (Manifest.DataFile named : Manifest.dataFiles(store)) {
            Path file = store.resolve("%06d.sst".formatted(named.number()));
            if (!Files.exists(file)) missing.put(file, named);
        }
        return missing;
    }
}
