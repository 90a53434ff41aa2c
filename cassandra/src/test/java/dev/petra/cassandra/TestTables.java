// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.disk.Disk;
import dev.petra.cassandra.table.TableGenerations;
import java.nio.file.Path;
import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;

/** Tables without a node. */
public final class TestTables {
    static {
        DatabaseDescriptor.clientInitialization(false);
        if (DatabaseDescriptor.getPartitioner() == null)
            DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
    }

    private TestTables() {}

    public static TableMetadata table(String cql) {
        return CreateTableStatement.parse(cql, "ks")
                .id(TableId.fromString("11111111-2222-3333-4444-555555555555"))
                .build();
    }

    /** The stores of a table that makes none, since there is no engine. */
    public static TableGenerations withoutEngine(TableMetadataRef metadata, Path directory) {
        return TableGenerations.open(
                "t",
                metadata,
                () -> {
                    throw new UnsupportedOperationException();
                },
                List.of(directory),
                Disk.REAL);
    }

    public static TableMetadataRef reference() {
        return TableMetadataRef.forOfflineTools(table("CREATE TABLE t (p int PRIMARY KEY, v int)"));
    }
}
