// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class CqlScriptTest {
    @Test
    void splitsAtSemicolons() {
        assertThat(CqlScript.split("USE ks; SELECT * FROM t ;\nSELECT 2"))
                .containsExactly("USE ks", "SELECT * FROM t", "SELECT 2");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "  \n", ";", " ; ;; ", "-- only a comment", "/* ; */ ; // x\n;"})
    void whatHasNoStatementIsNone(String text) {
        assertThat(CqlScript.split(text)).isEmpty();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "INSERT INTO t (a) VALUES ('a;b')",
                "INSERT INTO t (a) VALUES ('it''s; so')",
                "INSERT INTO t (a) VALUES ('')",
                "INSERT INTO t (a) VALUES ('''')",
                "INSERT INTO t (a) VALUES (''';')",
                "INSERT INTO t (a) VALUES ('-- no; comment')",
                "INSERT INTO t (a) VALUES ('/* no')",
                "INSERT INTO t (a) VALUES ('http://x;y')",
                "INSERT INTO t (a) VALUES ('\"; $$')",
                "INSERT INTO t (a) VALUES ('\\')",
                "INSERT INTO t (a) VALUES ('two\nlines;\n')",
                "SELECT \"odd;name\" FROM t",
                "SELECT \"with \"\"; quotes\" FROM t",
                "SELECT \"it's\" FROM t",
                "CREATE FUNCTION f() RETURNS int LANGUAGE java AS $$ return 1; // ' $$",
                "INSERT INTO t (a) VALUES ($$a 'b' \"c\" ; -- $ d$$)",
                "INSERT INTO t (a) VALUES ($$$$)",
                "SELECT a-b, c/d, e*f FROM t",
                "SELECT begin, batch, apply FROM t"
            })
    void semicolonsAndCommentsWithinQuotesAreText(String statement) {
        assertThat(CqlScript.split(statement + ";SELECT 1")).containsExactly(statement, "SELECT 1");
    }

    @Test
    void commentsAreDroppedAndLinesKept() {
        String script = "SELECT a, -- one; \n b // two\r\n /* th;\nree' */ FROM t; SELECT 1 --end";

        assertThat(CqlScript.split("-- don't\n" + script))
                .containsExactly("SELECT a, \n b \r\n  \n FROM t", "SELECT 1");
    }

    @Test
    void aBlockCommentSeparatesWords() {
        assertThat(CqlScript.split("SELECT/**/1")).containsExactly("SELECT 1");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "BEGIN BATCH INSERT INTO t (a) VALUES (1); UPDATE t SET b = 1; APPLY BATCH",
                "begin unlogged batch using timestamp 1 delete from t where a=1; apply batch",
                "BEGIN COUNTER BATCH UPDATE t SET c = c + 1 WHERE a = 1; APPLY\n BATCH",
                "BEGIN BATCH INSERT INTO t (a) VALUES ('APPLY BATCH;'); APPLY BATCH",
                "BEGIN BATCH UPDATE t SET apply = batch; UPDATE t SET apply=1; APPLY BATCH",
                "BEGIN BATCH APPLY BATCH"
            })
    void aBatchIsOneStatement(String batch) {
        assertThat(CqlScript.split("USE k;" + batch + ";" + batch + " ; SELECT 1;"))
                .containsExactly("USE k", batch, batch, "SELECT 1");
    }

    @Test
    void aCommentMayBePartOfABatch() {
        assertThat(CqlScript.split("BEGIN BATCH\nDELETE x; -- ;'\nAPPLY /* ; */ BATCH; SELECT 1"))
                .containsExactly("BEGIN BATCH\nDELETE x; \nAPPLY   BATCH", "SELECT 1");
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "SELECT 'abc|string|1|8",
                "SELECT 'it''s|string|1|8",
                "SELECT 1; SELECT ''''' |string|1|18",
                "SELECT \"abc|quoted name|1|8",
                "`SELECT 1;\n  $$ abc $`|$$ body|2|3",
                "`\n\n/* abc *`|comment|3|1",
                "`SELECT 1;\nBEGIN BATCH DELETE x; APPLY`|batch without APPLY BATCH|2|1",
                "`'ü😀' 'x`|string|1|7"
            })
    void whatIsNotEndedIsAnErrorThatNamesItsStart(String text, String what, int line, int column) {
        assertThatThrownBy(() -> CqlScript.split(text))
                .isInstanceOf(CqlException.class)
                .hasMessageContaining(what)
                .hasMessageEndingWith("at line " + line + ", column " + column);
    }
}
