// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Pairs of tables of one definition, one in the engine and one in Cassandra's own storage, and the
 * same done to both through a driver. In CQL, {@code @name} stands for a pair's table.
 */
final class TwinTables {
    private static final List<String> PREFIXES = List.of("rocks_", "stock_");

    private final String keyspace;
    private final Set<String> names = new LinkedHashSet<>();
    private final List<String> unseen = new ArrayList<>();
    private CqlSession session;

    TwinTables(CqlSession session, String keyspace) {
        this.session = session;
        this.keyspace = keyspace;
        session.execute(
                "CREATE KEYSPACE IF NOT EXISTS "
                        + keyspace
                        + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor':"
                        + " 1}");
    }

    /** Goes on with another session, after a restart. */
    void session(CqlSession other) {
        session = other;
    }

    CqlSession session() {
        return session;
    }

    /**
     * Creates a pair.
     *
     * @param columns all between the brackets of CREATE TABLE, and what follows {@code WITH}
     */
    void create(String name, String columns, String... options) {
        names.add(name);
        unseen.add(name);
        for (String prefix : PREFIXES) {
            String with = String.join(" AND ", options);
            if (prefix.equals("rocks_"))
                with = "memtable = 'rocks'" + (with.isEmpty() ? "" : " AND " + with);
            session.execute(
                    "CREATE TABLE "
                            + keyspace
                            + "."
                            + prefix
                            + name
                            + " ("
                            + columns
                            + ")"
                            + (with.isEmpty() ? "" : " WITH " + with));
        }
    }

    private SimpleStatement statement(String prefix, String cql, Object... values) {
        return SimpleStatement.newInstance(cql.replace("@", keyspace + "." + prefix), values);
    }

    /** Executes on both; what either gives must be the same. */
    List<String> both(String cql, Object... values) {
        List<String> rocks = text(session.execute(statement("rocks_", cql, values)));
        List<String> stock = text(session.execute(statement("stock_", cql, values)));
        assertThat(rocks).describedAs(cql).isEqualTo(stock);
        return rocks;
    }

    /** Both refuse. */
    void refused(String cql, String reason) {
        for (String prefix : PREFIXES)
            assertThatThrownBy(() -> session.execute(statement(prefix, cql)))
                    .describedAs(cql)
                    .hasMessageContaining(reason);
    }

    /**
     * Executes on both, which must do the same: give the same rows with the same warnings, or
     * refuse in the same words, but for the name of the table.
     *
     * @return what both did
     */
    List<String> same(String cql, Object... values) {
        List<String> rocks = outcome("rocks_", cql, values);
        assertThat(rocks).describedAs(cql).isEqualTo(outcome("stock_", cql, values));
        return rocks;
    }

    private List<String> outcome(String prefix, String cql, Object... values) {
        List<String> outcome;
        try {
            ResultSet result = session.execute(statement(prefix, cql, values));
            List<String> warnings = result.getExecutionInfo().getWarnings();
            outcome = Stream.concat(text(result).stream(), warnings.stream()).toList();
        } catch (DriverException e) {
            outcome = List.of(e.getClass().getSimpleName() + ": " + e.getMessage());
        }
        return outcome.stream().map(line -> line.replace(prefix, "")).toList();
    }

    /** What a query gives, read whole and in pages of 1 and 3 rows. */
    List<String> query(String cql, Object... values) {
        List<String> rows = both(cql, values);
        for (int page : new int[] {1, 3})
            for (String prefix : PREFIXES)
                assertThat(text(session.execute(statement(prefix, cql, values).setPageSize(page))))
                        .describedAs("%s on %s by %d", cql, prefix, page)
                        .isEqualTo(rows);
        return rows;
    }

    private static List<String> text(ResultSet result) {
        return result.all().stream().map(Row::getFormattedContents).toList();
    }

    /** The pairs that were created since it was last called. */
    List<String> takeNew() {
        List<String> taken = List.copyOf(unseen);
        unseen.clear();
        return taken;
    }

    /** A nodetool command with both tables of some pairs. */
    String[] arguments(String command, List<String> pairs) {
        return Stream.concat(
                        Stream.of(command, keyspace),
                        pairs.stream()
                                .flatMap(name -> PREFIXES.stream().map(prefix -> prefix + name)))
                .toArray(String[]::new);
    }

    /** Every pair has the same rows. */
    void compareAll() {
        compare(names);
    }

    /** Some pairs have the same rows. */
    void compare(Collection<String> pairs) {
        for (String name : pairs) both("SELECT * FROM @" + name);
    }
}
