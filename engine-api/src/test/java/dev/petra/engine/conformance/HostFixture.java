// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.CQLFragmentParser;
import org.apache.cassandra.cql3.CqlParser;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.schema.UserFunctions;
import org.jspecify.annotations.Nullable;

/**
 * Just enough of a Cassandra to use its tables, keys, updates and filters in a test: a default
 * configuration held in memory, the Murmur3 partitioner, no directories, no threads, no schema.
 */
public final class HostFixture {
    /** The keyspace of all test tables. */
    public static final String KEYSPACE = "ks";

    /** How a reference is altered, but for Cassandra 6.0. */
    private static final @Nullable Method SET =
            method(TableMetadataRef.class, "set", TableMetadata.class);

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
        return builder(
                        CQLFragmentParser.parseAny(
                                        CqlParser::createTableStatement, cql, "CREATE TABLE")
                                .keyspace(KEYSPACE)
                                .prepare(null),
                        types)
                .id(TableId.generate())
                .partitioner(partitioner)
                .build();
    }

    /** Cassandra 6.0 asks for functions, too, which a table may use to mask its columns. */
    private static TableMetadata.Builder builder(CreateTableStatement statement, Types types) {
        try {
            Method ofTypes = method(CreateTableStatement.class, "builder", Types.class);
            return (TableMetadata.Builder)
                    (ofTypes != null
                            ? ofTypes.invoke(statement, types)
                            : CreateTableStatement.class
                                    .getMethod("builder", Types.class, UserFunctions.class)
                                    .invoke(statement, types, UserFunctions.none()));
        } catch (InvocationTargetException e) {
            throw new IllegalArgumentException("Cassandra refuses this table", e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("Cassandra has no such method any more", e);
        }
    }

    /** A tuple's or a frozen user type's value of these components, of which null has no bytes. */
    public static ByteBuffer tuple(@Nullable ByteBuffer... components) {
        int size = 0;
        for (ByteBuffer each : components)
            size += Integer.BYTES + (each == null ? 0 : each.remaining());
        ByteBuffer value = ByteBuffer.allocate(size);
        for (ByteBuffer each : components) {
            value.putInt(each == null ? -1 : each.remaining());
            if (each != null) value.put(each.duplicate());
        }
        return value.flip();
    }

    /** {@code row.transformAndFilter(change)}, of which 6.0 takes a function of Guava's. */
    static Row transform(Row row, Function<ColumnData, @Nullable ColumnData> change) {
        com.google.common.base.Function<ColumnData, @Nullable ColumnData> both = change::apply;
        try {
            Method java = method(Row.class, "transformAndFilter", Function.class);
            return (Row)
                    (java != null
                                    ? java
                                    : Row.class.getMethod(
                                            "transformAndFilter",
                                            com.google.common.base.Function.class))
                            .invoke(row, both);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("Cassandra has no such method any more", e);
        }
    }

    private static @Nullable Method method(Class<?> type, String name, Class<?>... parameters) {
        try {
            Method method = type.getDeclaredMethod(name, parameters);
            method.setAccessible(true);
            return method;
        } catch (NoSuchMethodException e) {
            return null;
        }
    }

    /** A reference to a table that is in no schema, for {@link #alter}. */
    public static TableMetadataRef ref(TableMetadata table) {
        return SET == null ? Schemas.ref(table) : TableMetadataRef.forOfflineTools(table);
    }

    /**
     * Makes every store that reads this reference see another version of its table, as ALTER does.
     */
    public static void alter(TableMetadataRef ref, TableMetadata altered) {
        try {
            if (SET == null) Schemas.alter(ref, altered);
            else SET.invoke(ref, altered);
        } catch (InvocationTargetException e) {
            throw new IllegalArgumentException("Cassandra refuses this ALTER", e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new LinkageError("Cassandra has no such method any more", e);
        }
    }

    /** In Cassandra 6.0 a reference looks its table up in a schema: here each has its own. */
    private static final class Schemas {
        private static final Map<TableMetadataRef, AtomicReference<TableMetadata>> tables =
                Collections.synchronizedMap(new WeakHashMap<>());

        static TableMetadataRef ref(TableMetadata table) {
            AtomicReference<TableMetadata> current = new AtomicReference<>(table);
            try {
                Class<?> type = Class.forName("org.apache.cassandra.schema.SchemaProvider");
                Object schema =
                        Proxy.newProxyInstance(
                                type.getClassLoader(),
                                new Class<?>[] {type},
                                (proxy, method, arguments) ->
                                        switch (method.getName()) {
                                            case "getTableMetadata" -> current.get();
                                            // Without a version, nothing is cached.
                                            case "getVersion" -> null;
                                            default ->
                                                    throw new UnsupportedOperationException(
                                                            method.toString());
                                        });
                TableMetadataRef ref =
                        TableMetadataRef.class
                                .getConstructor(type, String.class, String.class, TableId.class)
                                .newInstance(schema, table.keyspace, table.name, table.id);
                tables.put(ref, current);
                return ref;
            } catch (ReflectiveOperationException e) {
                throw new LinkageError("Cassandra has no such schema any more", e);
            }
        }

        static void alter(TableMetadataRef ref, TableMetadata altered) {
            AtomicReference<TableMetadata> current = tables.get(ref);
            if (current == null) throw new IllegalArgumentException("not made by ref()");
            try {
                altered.validateCompatibility(current.get());
            } catch (ConfigurationException e) {
                throw new IllegalArgumentException("Cassandra refuses this ALTER", e);
            }
            current.set(altered);
        }
    }
}
