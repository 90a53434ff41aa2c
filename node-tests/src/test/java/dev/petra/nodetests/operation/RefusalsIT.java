// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.QueryValidationException;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.TableFiles;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.file.Path;
import java.util.Map;
import javax.management.Attribute;
import javax.management.MBeanServerConnection;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What an engine table cannot do yet is refused by name, and nothing has changed then. */
class RefusalsIT {
    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node =
                TestNode.start(
                        directory,
                        options ->
                                options.yaml(
                                        Map.of(
                                                "materialized_views_enabled",
                                                true,
                                                "sasi_indexes_enabled",
                                                true,
                                                "memtable",
                                                Map.of(
                                                        "configurations",
                                                        Map.of(
                                                                "other",
                                                                Map.of(
                                                                        "inherits",
                                                                        "rocks",
                                                                        "parameters",
                                                                        Map.of(
                                                                                "engine", "rocks",
                                                                                "memory",
                                                                                "64MiB")))))));
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v text, PRIMARY KEY (p, c))"
                        + " WITH memtable = 'rocks'");
        session.execute("INSERT INTO ks.t (p, c, v) VALUES (1, 1, 'a')");
        session.execute("CREATE TABLE ks.plain (p int PRIMARY KEY, v text)");
        session.execute(
                "CREATE MATERIALIZED VIEW ks.plain_by_v AS SELECT * FROM ks.plain WHERE p IS NOT"
                        + " NULL AND v IS NOT NULL PRIMARY KEY (v, p)");
        createWhatCannotEnter();
    }

    private static void createWhatCannotEnter() {
        TestNode.createKeyspace(session, "indexed", 1);
        session.execute("CREATE TABLE indexed.t (p int PRIMARY KEY, v text)");
        session.execute(
                "CREATE CUSTOM INDEX ON indexed.t (v) USING"
                        + " 'org.apache.cassandra.index.sasi.SASIIndex'");
        session.execute("CREATE TABLE indexed.logged (p int PRIMARY KEY) WITH cdc = true");
    }

    @AfterAll
    static void stop() {
        session.close();
        node.close();
    }

    @AfterEach
    void theTableIsAsItWas() {
        assertThat(session.execute("SELECT v FROM ks.t WHERE p = 1").all()).hasSize(1);
        assertThat(
                        session.execute(
                                        "SELECT memtable, cdc FROM system_schema.tables WHERE"
                                                + " keyspace_name = 'ks' AND table_name = 't'")
                                .all())
                .allMatch(row -> "rocks".equals(row.getString("memtable")))
                .allMatch(row -> row.isNull("cdc") || !row.getBoolean("cdc"));
        assertThat(
                        session.execute(
                                "SELECT * FROM system_schema.indexes WHERE keyspace_name = 'ks'"))
                .isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREATE CUSTOM INDEX ON ks.t (v) USING"
                        + " 'org.apache.cassandra.index.sasi.SASIIndex'",
                "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.t WHERE p IS NOT NULL AND c IS"
                        + " NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c)",
                "CREATE MATERIALIZED VIEW ks.mv AS SELECT * FROM ks.plain WHERE p IS NOT NULL AND"
                        + " v IS NOT NULL PRIMARY KEY (v, p) WITH memtable = 'rocks'",
                "ALTER MATERIALIZED VIEW ks.plain_by_v WITH memtable = 'rocks'",
                "CREATE TABLE ks.compacted (p int PRIMARY KEY, v int) WITH COMPACT STORAGE AND"
                        + " memtable = 'rocks'",
                "ALTER TABLE ks.t WITH memtable = 'other'",
                "ALTER TABLE ks.plain WITH memtable = 'rocks'",
                "ALTER TABLE indexed.t WITH memtable = 'rocks'",
                "ALTER TABLE indexed.logged WITH memtable = 'rocks'",
                "ALTER TABLE ks.t WITH cdc = true"
            })
    void statements(String cql) {
        assertThatThrownBy(() -> session.execute(cql))
                .isInstanceOf(InvalidQueryException.class)
                .hasMessageContaining("in a storage engine");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "CREATE TABLE ks.x (p int PRIMARY KEY) WITH memtable = 'rocks' AND cdc = true",
                "CREATE TABLE ks.x (p int PRIMARY KEY) WITH memtable = 'nosuch'"
            })
    void statementsThatCassandraRefusesByItself(String cql) {
        assertThatThrownBy(() -> session.execute(cql)).isInstanceOf(QueryValidationException.class);
    }

    @ParameterizedTest
    @CsvSource({
        "scrub ks t",
        "upgradesstables -a -t 1 ks t",
        "relocatesstables ks t",
        "compact --partition 1 ks t",
        "forcecompact ks t 1",
        "getsstables ks t 1",
        "getsstables --show-levels ks t 1",
        "setcompactionthreshold ks t 4 32",
        "verify --force --rsc ks t",
        "verify --force --check-version ks t"
    })
    void nodetool(String command) {
        NodeTool.Result result = node.tryNodetool(command.split(" "));
        assertThat(result.exitCode()).describedAs(result.output()).isNotZero();
        assertThat(result.output()).contains("cannot be done on table ks.t");
    }

    /** They would set what Cassandra's compaction of this node looks at, and nothing of ours. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "MinimumCompactionThreshold",
                "MaximumCompactionThreshold",
                "CompactionParameters",
                "CompactionParametersJson",
                "CompressionParameters",
                "CompressionParametersJson",
                "CrcCheckChance"
            })
    void attributesOfJmx(String attribute) throws Exception {
        try (JMXConnector jmx = node.jmx()) {
            MBeanServerConnection beans = jmx.getMBeanServerConnection();
            ObjectName engine = table("t");
            // Cassandra can only be told of this one.
            Object now =
                    attribute.equals("CrcCheckChance")
                            ? 1.0
                            : beans.getAttribute(engine, attribute);
            assertThatThrownBy(() -> beans.setAttribute(engine, new Attribute(attribute, now)))
                    .hasStackTraceContaining("cannot be done on table ks.t");
            beans.setAttribute(table("plain"), new Attribute(attribute, now));
        }
    }

    private static ObjectName table(String name) throws MalformedObjectNameException {
        return new ObjectName("org.apache.cassandra.db:type=Tables,keyspace=ks,table=" + name);
    }

    /** Its files are no SSTables that could be named. */
    @Test
    void compactUserDefined() {
        node.nodetool("flush", "ks", "t");
        Path file =
                TableFiles.children(TableFiles.of(node, "ks", "t").stores().resolve("1")).stream()
                        .filter(path -> path.toString().endsWith(".sst"))
                        .findFirst()
                        .orElseThrow();
        NodeTool.Result result = node.tryNodetool("compact", "--user-defined", file.toString());
        assertThat(result.exitCode()).isNotZero();
        assertThat(result.output()).contains("Invalid sstable file");
    }

    @Test
    void otherTablesAreNotConcerned() {
        for (String command :
                new String[] {
                    "scrub ks plain",
                    "upgradesstables -a ks plain",
                    "garbagecollect ks plain",
                    "disableautocompaction ks plain",
                    "enableautocompaction ks plain"
                }) {
            NodeTool.Result result = node.tryNodetool(command.split(" "));
            assertThat(result.exitCode()).describedAs(command + result.output()).isZero();
        }
    }
}
