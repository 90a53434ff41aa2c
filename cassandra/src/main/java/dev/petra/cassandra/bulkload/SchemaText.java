// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.cassandra.cql3.CQLStatement;
import org.apache.cassandra.cql3.ColumnIdentifier;
import org.apache.cassandra.cql3.QueryProcessor;
import org.apache.cassandra.cql3.statements.schema.CreateTableStatement;
import org.apache.cassandra.cql3.statements.schema.CreateTypeStatement;
import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.exceptions.InvalidRequestException;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.service.ClientState;

/**
 * The {@code schema.cql} of a snapshot, or of what a {@link StoreWriter} wrote: one CREATE TABLE, a
 * CREATE TYPE for each of its types, and for dropped columns ALTER TABLE … DROP and ADD. Other
 * statements, such as CREATE INDEX, are ignored.
 */
final class SchemaText {
    static final String FILE = "schema.cql";

    private static final Pattern END = Pattern.compile(";\\s*(\\R|$)");
    private static final Pattern COMMENT = Pattern.compile("(?s)/\\*.*?\\*/");
    private static final Pattern TYPE =
            Pattern.compile(
                    "(?is)CREATE\\s+TYPE\\s+(IF\\s+NOT\\s+EXISTS\\s+)?([^\\s(]+\\.)?([^\\s(]+).*");

    private static final Pattern DROP =
            Pattern.compile(
                    "(?is)ALTER\\s+TABLE\\s+\\S+\\s+DROP\\s+(\\S+)\\s+USING\\s+TIMESTAMP\\s+(\\d+)");
    private static final Pattern ADD =
            Pattern.compile("(?is)ALTER\\s+TABLE\\s+\\S+\\s+ADD\\s+(\\S+)\\s.*");

    /** The memtable configuration is replaced: this process does not know those of the nodes. */
    private static final Pattern MEMTABLE = Pattern.compile("memtable\\s*=\\s*'[^']*'");

    private final CreateTableStatement.Raw table;
    private final Map<String, CreateTypeStatement.Raw> types;

    /** The columns of the CREATE TABLE that were dropped afterwards; the times in microseconds. */
    private final Map<String, Long> dropped;

    /** The dropped columns that were added again. */
    private final Set<String> added;

    private SchemaText(
            CreateTableStatement.Raw table,
            Map<String, CreateTypeStatement.Raw> types,
            Map<String, Long> dropped,
            Set<String> added) {
        this.table = table;
        this.types = types;
        this.dropped = dropped;
        this.added = added;
    }

    /**
     * Parses the text of a {@code schema.cql}, in which names are qualified by their keyspace.
     *
     * @throws InvalidRequestException if there is not exactly one CREATE TABLE, or it or a CREATE
     *     TYPE is malformed
     */
    static SchemaText parse(String text) {
        List<CreateTableStatement.Raw> tables = new ArrayList<>();
        Map<String, CreateTypeStatement.Raw> types = new LinkedHashMap<>();
        Map<String, Long> dropped = new LinkedHashMap<>();
        Set<String> added = new HashSet<>();
        for (String each : END.split(COMMENT.matcher(text).replaceAll(" "), -1)) {
            String statement = MEMTABLE.matcher(each.strip()).replaceAll("memtable = 'default'");
            if (statement.toUpperCase(Locale.ROOT).startsWith("CREATE TABLE"))
                tables.add(parse(statement, CreateTableStatement.Raw.class, "CREATE TABLE"));
            Matcher drop = DROP.matcher(statement);
            if (drop.matches()) dropped.put(drop.group(1), Long.valueOf(drop.group(2)));
            Matcher add = ADD.matcher(statement);
            if (add.matches()) added.add(add.group(1));
            Matcher type = TYPE.matcher(statement);
            if (type.matches())
                types.put(
                        type.group(3),
                        parse(statement, CreateTypeStatement.Raw.class, "CREATE TYPE"));
        }
        if (tables.size() != 1)
            throw new InvalidRequestException(
                    "A schema must have one CREATE TABLE, not " + tables.size() + ".");
        return new SchemaText(tables.get(0), types, dropped, added);
    }

    /** The keyspace of the CREATE TABLE. */
    String keyspace() {
        return table.keyspace();
    }

    /** The name of the CREATE TABLE. */
    String name() {
        return table.table();
    }

    /** A row of {@code system_schema.types}: a user-defined type, its fields and their types. */
    record TypeRow(String name, List<String> fields, List<String> types) {}

    /**
     * The user-defined types of the table.
     *
     * @param more the cluster's types, taken where the text lacks one: Cassandra omits from a
     *     snapshot's {@code schema.cql} the types that are used inside of collections
     */
    Types types(List<TypeRow> more) {
        Types.RawBuilder known = Types.rawBuilder(keyspace());
        types.values().forEach(type -> type.addToRawBuilder(known));
        for (TypeRow row : more)
            if (!types.containsKey(row.name())) known.add(row.name(), row.fields(), row.types());
        return known.build();
    }

    /** The metadata of the table. It is not added to the schema of this process. */
    TableMetadata table(IPartitioner partitioner, Types known) {
        CreateTableStatement statement = table.prepare(ClientState.forInternalCalls());
        statement.validate(ClientState.forInternalCalls());
        TableMetadata.Builder builder = statement.builder(known).partitioner(partitioner);
        dropped.forEach(
                (name, micros) -> {
                    ColumnIdentifier column =
                            ColumnIdentifier.getInterned(name.replace("\"", ""), true);
                    builder.recordColumnDrop(builder.getColumn(column), micros);
                    if (!added.contains(name)) builder.removeRegularOrStaticColumn(column);
                });
        return builder.build();
    }

    /**
     * Parses one statement.
     *
     * @param form the class of the parsed statement
     * @param name what the error message calls such a statement
     * @throws InvalidRequestException if it is malformed, or another kind of statement
     */
    static <T extends CQLStatement.Raw> T parse(String statement, Class<T> form, String name) {
        try {
            return QueryProcessor.parseStatement(statement, form, name);
        } catch (IllegalArgumentException e) {
            throw new InvalidRequestException(
                    "'%s' is no %s: %s".formatted(statement, name, e.getMessage()), e);
        }
    }
}
