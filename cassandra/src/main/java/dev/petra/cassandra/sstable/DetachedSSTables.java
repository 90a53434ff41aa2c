// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.sstable;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.apache.cassandra.io.sstable.Component;
import org.apache.cassandra.io.sstable.Descriptor;
import org.apache.cassandra.io.sstable.SSTable;
import org.apache.cassandra.io.sstable.format.SSTableReader;
import org.apache.cassandra.io.sstable.format.big.BigFormat;
import org.apache.cassandra.io.sstable.format.big.BigSSTableReaderLoadingBuilder;
import org.apache.cassandra.io.sstable.format.big.BigTableReader;
import org.apache.cassandra.io.sstable.format.bti.BtiFormat;
import org.apache.cassandra.io.sstable.format.bti.BtiTableReader;
import org.apache.cassandra.io.sstable.format.bti.BtiTableReaderLoadingBuilder;
import org.apache.cassandra.schema.TableMetadataRef;

/**
 * SSTables that are part of no table, as those of a snapshot. What goes wrong with them is thrown
 * and reaches no {@code disk_failure_policy}, which Cassandra's own ways to open an SSTable call;
 * and no file is changed, while Cassandra deletes a summary that it cannot use.
 */
public final class DetachedSSTables {
    private DetachedSSTables() {}

    /**
     * Opens one. Bloom filters are not loaded.
     *
     * @return the caller releases its {@linkplain SSTableReader#selfRef reference}
     * @throws IOException if it cannot be opened
     * @throws RuntimeException the same, with what Cassandra says of it
     * @throws IllegalArgumentException if it lacks files or is of an unknown format
     */
    public static SSTableReader open(Descriptor descriptor, TableMetadataRef table)
            throws IOException {
        Set<Component> components = new HashSet<>(descriptor.discoverComponents());
        if (!components.containsAll(descriptor.getFormat().primaryComponents()))
            throw new IllegalArgumentException(
                    descriptor + " lacks some of its files: there are " + components);
        if (descriptor.getFormat() instanceof BigFormat) {
            // It has no checksum, and a wrong one hides partitions: it is made anew, in memory.
            components.remove(BigFormat.Components.SUMMARY);
            return new Big(descriptor, table, components).open();
        }
        if (descriptor.getFormat() instanceof BtiFormat)
            return new Bti(descriptor, table, components).open();
        throw new IllegalArgumentException(
                descriptor + " is of an unknown format, " + descriptor.getFormat().name());
    }

    private static SSTable.Builder<?, ?> builder(
            Descriptor descriptor, TableMetadataRef table, Set<Component> components) {
        return new SSTable.Builder<>(descriptor)
                .setTableMetadataRef(table)
                .setComponents(components);
    }

    /** As {@code build} does it, without telling anybody of errors. */
    private static final class Big extends BigSSTableReaderLoadingBuilder {
        Big(Descriptor descriptor, TableMetadataRef table, Set<Component> components) {
            super(builder(descriptor, table, components));
        }

        SSTableReader open() throws IOException {
            BigTableReader.Builder made = new BigTableReader.Builder(descriptor);
            made.setOpenReason(SSTableReader.OpenReason.NORMAL);
            made.setMaxDataAge(System.currentTimeMillis());
            made.setTableMetadataRef(tableMetadataRef);
            made.setComponents(components);
            openComponents(made, null, false, false);
            return made.build(null, false, false);
        }
    }

    /** The same of the other format. */
    private static final class Bti extends BtiTableReaderLoadingBuilder {
        Bti(Descriptor descriptor, TableMetadataRef table, Set<Component> components) {
            super(builder(descriptor, table, components));
        }

        SSTableReader open() throws IOException {
            BtiTableReader.Builder made = new BtiTableReader.Builder(descriptor);
            made.setOpenReason(SSTableReader.OpenReason.NORMAL);
            made.setMaxDataAge(System.currentTimeMillis());
            made.setTableMetadataRef(tableMetadataRef);
            made.setComponents(components);
            openComponents(made, null, false, false);
            return made.build(null, false, false);
        }
    }
}
