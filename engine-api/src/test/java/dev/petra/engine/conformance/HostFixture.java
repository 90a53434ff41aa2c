// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Types;

/**
 * Just enough of a Cassandra to use its tables, keys, updates and filters in a test: a default
 * configuration held in memory, the Murmur3 partitioner, no directories, no threads, no schema.
 */
public final class HostFixture {
    /** The keyspace of all test tables. */
    public static final String KEYSPACE = "ks";

    static {
        DatabaseDescriptor.clientInitialization(false, Config::new);
        if (DatabaseDescriptor.getPartitioner() == null)
            DatabaseDescriptor.setPartitionerUnsafe(Murmur3Partitioner.instance);
    }

    private HostFixture() {}

    /** Makes the classes of Cassandra usable in this JVM. Idempotent, and harmless in a daemon. */
    public static void initialise() {
        // The work is done by the class initialiser, once.
    }

    /** The table that a CREATE TABLE statement describes, under the Murmur3 partitioner. */
    public static TableMetadata table(String cql) {
        return table(cql, Types.none(), Murmur3Partitioner.instance);
    }

    /** The table that a CREATE TABLE statement describes, with user types and a partitioner. */
    public static TableMetadata table(String cql, Types types, IPartitioner partitioner) {
        return CQLFragmentParser.parseAny(CqlParser::createTableStatement, cql, "CREATE TABLE")
                .keyspace(KEYSPACE)
                .prepare(null)
                .builder(types)
                .id(TableId.generate())
                .partitioner(partitioner)
                .build();
    }

    /**
     * Makes every store that reads this reference see another version of its table, as ALTER does.
     */
    public static void alter(TableMetadataRef ref, TableMetadata altered) {
        try {
            Method set = TableMetadataRef.class.getDeclaredMethod("set", TableMetadata.class);
            set.setAccessible(true);
            set.invoke(ref, altered);
        } catch (InvocationTargetException e) {
            throw new IllegalArgumentException("Cassandra refuses this ALTER", e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("Cassandra has no such method any more", e);
        }
    }
}
