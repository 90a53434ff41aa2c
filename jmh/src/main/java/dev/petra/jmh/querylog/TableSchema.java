// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The tables of a file of CQL: {@code schema.cql} of a snapshot, or what {@code DESCRIBE} prints.
 *
 * @param snapshot the directory with their SSTables; null if they are empty
 */
public record TableSchema(Path file, List<String> statements, @Nullable Path snapshot) {
    private static final String NAME = "(\"(?:[^\"]|\"\")*\"|\\w+)";

    private static final Pattern CREATED =
            Pattern.compile(
                    "^(?:CREATE|ALTER)\\s+(TABLE|TYPE|INDEX|CUSTOM\\s+INDEX)\\b"
                            + "(?:\\s+IF\\s+NOT\\s+EXISTS)?(?:.*?\\sON)??\\s+"
                            + NAME
                            + "\\s*\\.\\s*"
                            + NAME,
                    Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

    private static final Pattern CREATE_TABLE =
            Pattern.compile("^CREATE\\s+TABLE\\b", Pattern.CASE_INSENSITIVE);

    private static final Pattern MEMTABLE =
            Pattern.compile("\\bmemtable\\s*=\\s*'[^']*'", Pattern.CASE_INSENSITIVE);

    private static final Pattern WITH = Pattern.compile("\\)\\s*WITH\\b", Pattern.CASE_INSENSITIVE);

    /** A schema that cannot be read or has nothing. */
    public static final class SchemaException extends RuntimeException {
        private static final long serialVersionUID = 1;

        SchemaException(String message) {
            super(message);
        }
    }

    /** A keyspace's table. */
    public record Table(String keyspace, String name) {
        @Override
        public String toString() {
            return keyspace + "." + name;
        }
    }

    /** The table of a snapshot: of {@code nodetool snapshot}, the directory of one table. */
    public static TableSchema ofSnapshot(Path directory) {
        Path file = directory.resolve("schema.cql");
        if (!Files.isRegularFile(file))
            throw new SchemaException(
                    directory
                            + " is no snapshot of a table: it has no schema.cql. It is named"
                            + " data/KEYSPACE/TABLE-ID/snapshots/TAG.");
        return new TableSchema(file, read(file), directory);
    }

    /** Of a file of statements. */
    public static TableSchema ofFile(Path file) {
        return new TableSchema(file, read(file), null);
    }

    private static List<String> read(Path file) {
        try {
            // Keyspaces are made with one replica, and views and functions are not asked.
            List<String> statements =
                    CqlText.statements(Files.readString(file)).stream()
                            .filter(statement -> CREATED.matcher(statement).find())
                            .toList();
            if (statements.stream().noneMatch(s -> CREATE_TABLE.matcher(s).find()))
                throw new SchemaException(file + " creates no table");
            return statements;
        } catch (IOException e) {
            throw new SchemaException("cannot read " + file + ": " + e);
        }
    }

    /** The tables that several create, each once. */
    public static Set<Table> tablesOf(List<TableSchema> schemas) {
        Set<Table> tables = new LinkedHashSet<>();
        for (TableSchema schema : schemas) tables.addAll(schema.tables());
        return tables;
    }

    /** The tables that it creates. */
    public Set<Table> tables() {
        Set<Table> tables = new LinkedHashSet<>();
        for (String statement : statements) {
            Matcher created = CREATED.matcher(statement);
            if (created.find() && CREATE_TABLE.matcher(statement).find())
                tables.add(
                        new Table(CqlText.name(created.group(2)), CqlText.name(created.group(3))));
        }
        return tables;
    }

    /**
     * Creates the tables, their types and indexes.
     *
     * @param memtable the memtable configuration that tables get
     */
    public void create(CqlSession session, String memtable) {
        for (Table table : tables())
            session.execute(
                    "CREATE KEYSPACE IF NOT EXISTS "
                            + CqlIdentifier.fromInternal(table.keyspace).asCql(true)
                            + " WITH replication = {'class': 'SimpleStrategy',"
                            + " 'replication_factor': 1}");
        for (String statement : withMemtable(memtable)) session.execute(statement);
    }

    /** Its statements, with the memtable configuration of tables in place of their own. */
    List<String> withMemtable(String memtable) {
        String option = "memtable = '" + memtable + "'";
        List<String> changed = new ArrayList<>();
        for (String statement : statements) {
            if (!CREATE_TABLE.matcher(statement).find()) changed.add(statement);
            else if (MEMTABLE.matcher(statement).find())
                changed.add(MEMTABLE.matcher(statement).replaceAll(option));
            else
                changed.add(
                        statement + (WITH.matcher(statement).find() ? " AND " : " WITH ") + option);
        }
        return changed;
    }
}
