// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.sstable.DetachedSSTables;
import dev.petra.engine.DirectoryTree;
import java.io.IOException;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.util.File;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.utils.concurrent.Ref;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An SSTable that a copy has yet to read. Cassandra deletes none that is referenced; over a restart
 * its files are kept by hard links in the {@link ShadowFolder}, if it is the table's no more:
 *
 * <pre>
 *   rocksdb_shadow/backups/1764412345678/nb-17-big-Data.db   since the stop at that time
 * </pre>
 *
 * <p>Those of several stops may have equal names: Cassandra gives a number again that no SSTable of
 * the table has. One thread opens and releases it; the others only ask for its size.
 */
final class CopySource {
    private static final Logger logger = LoggerFactory.getLogger(CopySource.class);

    /** Cassandra passes over a directory of this name when it looks at all SSTables at a start. */
    static final String KEPT = "backups";

    private final Path path;
    private final long bytes;
    private final long newFrom;

    /** Whether its files are this one's, to be deleted. */
    private final boolean isKept;

    private @Nullable Ref<SSTableReader> reference;

    private CopySource(
            Path path, long bytes, long newFrom, @Nullable Ref<SSTableReader> reference) {
        this.path = path;
        this.bytes = bytes;
        this.newFrom = newFrom;
        this.isKept = reference == null;
        this.reference = reference;
    }

    /** One of the table, which this releases. */
    static CopySource of(Ref<SSTableReader> reference, long newFrom) {
        SSTableReader sstable = reference.get();
        return new CopySource(path(sstable), sstable.uncompressedLength(), newFrom, reference);
    }

    /** One that was {@linkplain #keep kept}. */
    static CopySource kept(ShadowFolder.Left left) {
        return new CopySource(Path.of(left.path()), left.bytes(), left.newFrom(), null);
    }

    /** Of the files of an SSTable, without the component. */
    static Path path(SSTableReader sstable) {
        return sstable.descriptor.baseFile().toPath();
    }

    /** What {@link LateWrites#copied} wants to know of it. */
    long newFrom() {
        return newFrom;
    }

    /** Whether it is the table's no more, and was kept over a restart. */
    boolean isKept() {
        return isKept;
    }

    /** Of its content. */
    long bytes() {
        return bytes;
    }

    /**
     * Opens it, if it is not open; {@link #release} follows.
     *
     * @throws IOException or a RuntimeException if it cannot be opened
     */
    SSTableReader open(TableMetadataRef table) throws IOException {
        Ref<SSTableReader> open = reference;
        if (open == null) {
            Descriptor descriptor =
                    Descriptor.fromFileWithComponent(
                                    new File(data(path)), table.keyspace, table.name)
                            .left;
            open = DetachedSSTables.open(descriptor, table).selfRef();
            reference = open;
            long found = open.get().uncompressedLength();
            if (found != bytes)
                throw new IOException("it has " + found + " bytes of data, and had " + bytes);
        }
        return open.get();
    }

    /** When it is read no more: also deletes what was kept of it. */
    void release() {
        Ref<SSTableReader> open = reference;
        if (open != null) open.release();
        if (isKept) delete();
    }

    private Path directory() {
        Path directory = path.getParent();
        if (directory == null) throw new IllegalStateException(path + " is in no directory");
        return directory;
    }

    private static Path data(Path path) {
        return path.resolveSibling(path.getFileName() + "-Data.db");
    }

    private void delete() {
        try {
            try (DirectoryStream<Path> files =
                    Files.newDirectoryStream(directory(), path.getFileName() + "-*")) {
                for (Path file : files) Files.delete(file);
            }
            Files.delete(directory());
        } catch (DirectoryNotEmptyException e) {
            logger.debug("Others of the same stop are to be copied yet", e);
        } catch (IOException | DirectoryIteratorException e) {
            logger.warn("{} takes disk space until the node is restarted", path, e);
        }
    }

    // Over a restart

    /**
     * Keeps its files for the next start; {@link Disk#syncDirectory} of where they are then makes
     * that durable.
     *
     * @param live the SSTables of the table, which the next start finds
     * @param stop names this stop
     */
    ShadowFolder.Left keep(Set<SSTableReader> live, long stop, Disk disk) throws IOException {
        Ref<SSTableReader> open = reference;
        Path where = path;
        if (!isKept && open != null && !live.contains(open.get())) {
            ShadowFolder folder = new ShadowFolder(directory(), disk);
            folder.create();
            Disk.makeDirectory(disk, folder.kept());
            Path links = folder.kept().resolve(Long.toString(stop));
            Disk.makeDirectory(disk, links);
            open.get().createLinks(links.toString());
            where = links.resolve(String.valueOf(path.getFileName()));
        }
        return new ShadowFolder.Left(where.toString(), bytes, newFrom);
    }

    /**
     * Whether something is there that {@link #keep} has left in one of these folders.
     *
     * @throws IOException if that cannot be told
     */
    static boolean isThere(ShadowFolder.Left left, List<ShadowFolder> folders) throws IOException {
        Path path = Path.of(left.path());
        Path stop = kept(left).directory();
        Path stops = stop.getParent();
        if (stops == null || Files.isSymbolicLink(stop) || !Files.isRegularFile(data(path)))
            return false;
        // It will be deleted: nothing of anybody else, whatever the name says.
        for (ShadowFolder folder : folders)
            if (Files.isDirectory(folder.kept()) && Files.isSameFile(stops, folder.kept()))
                return true;
        return false;
    }

    /**
     * Deletes what was kept by other stops than this.
     *
     * @param wanted what is there
     * @throws IOException if it cannot be told what is there
     */
    static void deleteOthers(ShadowFolder folder, List<ShadowFolder.Left> wanted)
            throws IOException {
        if (!Files.isDirectory(folder.kept())) return;
        Set<Path> directories = new HashSet<>();
        for (ShadowFolder.Left each : wanted) directories.add(kept(each).directory().toRealPath());
        try (DirectoryStream<Path> stops = Files.newDirectoryStream(folder.kept())) {
            for (Path stop : stops) {
                try {
                    if (!directories.contains(stop.toRealPath())) DirectoryTree.delete(stop);
                } catch (IOException | FSError e) {
                    logger.warn("{} takes disk space, and cannot be deleted", stop, e);
                }
            }
        } catch (DirectoryIteratorException e) {
            throw e.getCause();
        }
    }

    @Override
    public String toString() {
        return path.toString();
    }
}
