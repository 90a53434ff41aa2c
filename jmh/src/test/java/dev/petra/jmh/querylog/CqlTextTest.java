// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;

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
                "SELECT * FROM ks.t WHERE k = 1 | READ | ks | t | false",
                "select json a from T | READ | - | t | false",
                "SELECT \"from x\" FROM \"Ks\" . \"T\"\"2\" | READ | Ks | T\"2 | false",
                "INSERT INTO ks.t (k, v) VALUES (1, 'from other now()') | WRITE | ks | t | false",
                "INSERT INTO t (k, v) VALUES (now( ), 1) | WRITE | - | t | true",
                "UPDATE ks.t USING TTL 5 SET v = $$update x$$ WHERE k = 1 | WRITE | ks | t | false",
                "DELETE a, b FROM ks.t WHERE k = 1 | WRITE | ks | t | false",
                "/* SELECT from a */ DELETE FROM ks.t WHERE k = 1 -- from b | WRITE | ks | t |"
                        + " false",
                "BEGIN UNLOGGED BATCH UPDATE ks.t SET v = 1; APPLY BATCH | WRITE | ks | t | false",
                "TRUNCATE TABLE ks.t | WRITE | ks | t | false",
                "TRUNCATE ks.t | WRITE | ks | t | false",
                "SELECT currentTimestamp() FROM ks.t | READ | ks | t | true",
                "SELECT snow (a) FROM ks.t | READ | ks | t | false",
                "CREATE TABLE ks.t (k int PRIMARY KEY) | OTHER | - | - | false",
                "USE ks | OTHER | - | - | false",
                "'' | OTHER | - | - | false"
            })
    void aStatementIsKnownByItsFirstWordsAndNames(
            String cql, CqlText.Kind kind, String keyspace, String table, boolean isVolatile) {
        assertThat(CqlText.of(cql)).isEqualTo(new CqlText(kind, keyspace, table, isVolatile));
    }

    @Test
    void aStringMayBeLong() {
        String value = "'" + "x''".repeat(500_000) + "'";
        assertThat(CqlText.of("INSERT INTO ks.t (k, v) VALUES (1, " + value + ")"))
                .isEqualTo(new CqlText(CqlText.Kind.WRITE, "ks", "t", false));
        assertThat(CqlText.of("SELECT " + value.replace('\'', '"') + " FROM ks.t").table())
                .isEqualTo("t");
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
