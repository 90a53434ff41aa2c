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
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.service.ClientState;

/**
 * The {@code schema.cql} of a snapshot, or of what a {@link StoreWriter} wrote: one CREATE TABLE, a
 * CREATE TYPE for each of its types, and for dropped columns ALTER TABLE … DROP and ADD. Any other
 * ALTER TABLE is refused; other statements, such as CREATE INDEX, are ignored, and so are the
 * options memtable and auto_repair, and the masks of columns.
 */
final class SchemaText {
    static final String FILE = "schema.cql";

    private static final Pattern END = Pattern.compile(";\\s*(\\R|$)");
    private static final Pattern COMMENT = Pattern.compile("(?s)/\\*.*?\\*/");
    private static final Pattern LINE_COMMENT = Pattern.compile("\\A((--|//).*(\\R\\s*|$))+");

    /** A name as CQL has it: in double quotes, with double quotes in it doubled, or without. */
    private static final String NAME = "(\"(?:[^\"]|\"\")+\"|\\w+)";

    /**
     * What must be told apart to find masks: strings, names in quotes, comments, the beginning of a
     * mask, and parentheses.
     */
    private static final Pattern TOKEN =
            Pattern.compile(
                    "(?is)'[^']*'|\"[^\"]*\"|\\$\\$.*?\\$\\$|(?:--|//)[^\\r"
                        + "\\n"
                        + "]*|(?<mask>\\bMASKED\\s+WITH\\s+(?:[^(),;]*(?<arguments>\\()|DEFAULT\\b))"
                        + "|[()]");

    private static final Pattern TYPE =
            Pattern.compile(
                    "(?is)CREATE\\s+TYPE\\s+(?:IF\\s+NOT\\s+EXISTS\\s+)?(?:%1$s\\s*\\.\\s*)?%1$s.*"
                            .formatted(NAME));

    private static final String ALTER_TABLE = "(?is)ALTER\\s+(?:TABLE|COLUMNFAMILY)\\s";
    private static final Pattern ALTER = Pattern.compile(ALTER_TABLE + ".*");
    private static final Pattern DROP =
            Pattern.compile(
                    ALTER_TABLE
                            + "+\\S+\\s+DROP\\s+"
                            + NAME
                            + "\\s+USING\\s+TIMESTAMP\\s+(-?\\d+)");
    private static final Pattern ADD =
            Pattern.compile(ALTER_TABLE + "+\\S+\\s+ADD\\s+" + NAME + "\\s[^;]*");

    /** Options that Cassandra takes only where they are configured, as on the nodes. */
    private static final List<String> OF_NODES = List.of("memtable", "auto_repair");

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
     * @throws InvalidRequestException if there is not exactly one CREATE TABLE, it or a CREATE TYPE
     *     is malformed, or an ALTER TABLE does something else
     */
    static SchemaText parse(String text) {
        List<CreateTableStatement.Raw> tables = new ArrayList<>();
        Map<String, CreateTypeStatement.Raw> types = new LinkedHashMap<>();
        Map<String, Long> dropped = new LinkedHashMap<>();
        Set<String> added = new HashSet<>();
        for (String each : END.split(withoutMasks(COMMENT.matcher(text).replaceAll(" ")), -1)) {
            String statement = LINE_COMMENT.matcher(each.strip()).replaceFirst("");
            if (statement.toUpperCase(Locale.ROOT).startsWith("CREATE TABLE")) {
                CreateTableStatement.Raw table =
                        parse(statement, CreateTableStatement.Raw.class, "CREATE TABLE");
                OF_NODES.forEach(table.attrs::removeProperty);
                tables.add(table);
            }
            if (ALTER.matcher(statement).matches()) alter(statement, dropped, added);
            Matcher type = TYPE.matcher(statement);
            if (type.matches())
                types.put(
                        unquoted(type.group(2)),
                        parse(statement, CreateTypeStatement.Raw.class, "CREATE TYPE"));
        }
        if (tables.size() != 1)
            throw new InvalidRequestException(
                    "A schema must have one CREATE TABLE, not " + tables.size() + ".");
        return new SchemaText(tables.get(0), types, dropped, added);
    }

    /**
     * Masks of columns are for readers, and Cassandra refuses them here: masking is not enabled,
     * nor are the functions of users known.
     */
    private static String withoutMasks(String text) {
        StringBuilder kept = new StringBuilder();
        int rest = 0;
        int depth = 0; // Of parentheses, from those around a mask's arguments on.
        Matcher token = TOKEN.matcher(text);
        while (token.find()) {
            String found = token.group();
            if (depth > 0) {
                if (found.equals("(")) depth++;
                else if (found.equals(")") && --depth == 0) rest = token.end();
            } else if (token.group("mask") != null) {
                kept.append(text, rest, token.start());
                rest = token.end();
                if (token.group("arguments") != null) depth = 1;
            }
        }
        return kept.append(text, rest, text.length()).toString();
    }

    /** What is not understood is refused: values of a dropped column would come back. */
    private static void alter(String statement, Map<String, Long> dropped, Set<String> added) {
        Matcher drop = DROP.matcher(statement);
        Matcher add = ADD.matcher(statement);
        if (drop.matches()) {
            String name = unquoted(drop.group(1));
            dropped.put(name, Long.valueOf(drop.group(2)));
            added.remove(name);
        } else if (add.matches() && dropped.containsKey(unquoted(add.group(1))))
            added.add(unquoted(add.group(1)));
        else
            throw new InvalidRequestException(
                    "A schema may drop a column by ALTER TABLE … DROP … USING TIMESTAMP …, and then"
                            + " add it again by ALTER TABLE … ADD …, one column in a statement."
                            + " Nothing else is understood: "
                            + statement);
    }

    private static String unquoted(String name) {
        return name.startsWith("\"")
                ? name.substring(1, name.length() - 1).replace("\"\"", "\"")
                : name.toLowerCase(Locale.ROOT);
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

    /**
     * The metadata of the table. It is not added to the schema of this process.
     *
     * @throws InvalidRequestException if it is invalid
     */
    TableMetadata table(IPartitioner partitioner, Types known) {
        CreateTableStatement statement = table.prepare(ClientState.forInternalCalls());
        statement.validate(ClientState.forInternalCalls());
        TableMetadata.Builder builder = statement.builder(known).partitioner(partitioner);
        dropped.forEach(
                (name, micros) -> {
                    ColumnMetadata column =
                            builder.getColumn(ColumnIdentifier.getInterned(name, true));
                    if (column == null)
                        throw new InvalidRequestException(
                                "Column %s is dropped, but the CREATE TABLE does not have it."
                                        .formatted(name));
                    builder.recordColumnDrop(column, micros);
                    if (!added.contains(name)) builder.removeRegularOrStaticColumn(column.name);
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
