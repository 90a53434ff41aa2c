// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CqlTextTest {
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            nullValues = "-",
            quoteCharacter = '`',
            value = {
                "SELECT * FROM ks.t WHERE k = 1 | READ | ks.t | -",
                "select json a from T | READ | .t | -",
                "SELECT \"from x\" FROM \"Ks\" . \"T\"\"2\" | READ | Ks.T\"2 | -",
                "INSERT INTO ks.t (k, v) VALUES (1, 'from other now() if') | WRITE | ks.t | -",
                "INSERT INTO t (k, v) VALUES (now( ), 1) | WRITE | .t | volatile",
                "UPDATE ks.t USING TTL 5 SET v = $$update x$$ WHERE k = 1 | WRITE | ks.t | -",
                "DELETE a, b FROM ks.t WHERE k = 1 | WRITE | ks.t | -",
                "/* SELECT from a */ DELETE FROM ks.t WHERE k = 1 -- from b | WRITE | ks.t | -",
                "BEGIN UNLOGGED BATCH UPDATE ks.t SET v = 1; APPLY BATCH | WRITE | ks.t | -",
                "BEGIN BATCH UPDATE ks.t SET v = 1; INSERT INTO u (k) VALUES (1) IF NOT EXISTS;"
                        + " DELETE FROM \"U\" APPLY BATCH | WRITE | ks.t .u .U | conditional",
                "TRUNCATE TABLE ks.t | WRITE | ks.t | -",
                "TRUNCATE ks.t | WRITE | ks.t | -",
                "SELECT currentTimestamp() FROM ks.t | READ | ks.t | volatile",
                "SELECT snow (a) FROM ks.t | READ | ks.t | -",
                "INSERT INTO ks.t (k) VALUES (1) IF NOT EXISTS | WRITE | ks.t | conditional",
                "UPDATE ks.t SET v = uuid() WHERE k = 1 if v=2 | WRITE | ks.t | volatile"
                        + " conditional",
                "DELETE FROM ks.t WHERE \"if\" = 1 AND iff = 2 | WRITE | ks.t | -",
                "CREATE TABLE IF NOT EXISTS ks.t (k int PRIMARY KEY) | OTHER | - | -",
                "USE ks | OTHER | - | -",
                "'' | OTHER | - | -"
            })
    void aStatementIsKnownByItsFirstWordsAndNames(
            String cql, CqlText.Kind kind, @Nullable String tables, @Nullable String what) {
        List<CqlText.Name> names = new ArrayList<>();
        for (String table : tables == null ? new String[0] : tables.split(" ")) {
            String keyspace = table.substring(0, table.indexOf('.'));
            names.add(
                    new CqlText.Name(
                            keyspace.isEmpty() ? null : keyspace,
                            table.substring(keyspace.length() + 1)));
        }
        String told = what == null ? "" : what;
        assertThat(CqlText.of(cql))
                .isEqualTo(
                        new CqlText(
                                kind,
                                names,
                                told.contains("volatile"),
                                told.contains("conditional")));
    }

    @Test
    void aStringMayBeLong() {
        String value = "'" + "x''".repeat(500_000) + "'";
        assertThat(CqlText.of("INSERT INTO ks.t (k, v) VALUES (1, " + value + ")"))
                .isEqualTo(
                        new CqlText(
                                CqlText.Kind.WRITE,
                                List.of(new CqlText.Name("ks", "t")),
                                false,
                                false));
        assertThat(CqlText.of("SELECT " + value.replace('\'', '"') + " FROM ks.t").tables())
                .containsExactly(new CqlText.Name("ks", "t"));
    }

    @Test
    void semicolonsInTextsEndNoStatement() {
        assertThat(
                        CqlText.statements(
                                """
                                /* a; b */ CREATE TABLE a (k int) WITH comment = 'x; ''y;';
                                -- c;
                                CREATE TABLE "b;" (k int);; CREATE TYPE c (i int)
                                """))
                .containsExactly(
                        "CREATE TABLE a (k int) WITH comment = 'x; ''y;'",
                        "CREATE TABLE \"b;\" (k int)",
                        "CREATE TYPE c (i int)");
    }
}
