// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SelectionTest {
    @TempDir Path directory;

    @Test
    void aBatchIsAskedWholeOrNotAtAll() {
        try (WrittenLog log = new WrittenLog(directory)) {
            log.batch("INSERT INTO ks.t (k) VALUES (1)", "DELETE FROM ks.t WHERE k = 2")
                    .batch("INSERT INTO ks.t (k) VALUES (3)", "INSERT INTO ks.u (k) VALUES (4)")
                    .query(
                            "BEGIN BATCH DELETE FROM ks.t WHERE k = 5; DELETE FROM ks.u WHERE k ="
                                    + " 6; APPLY BATCH")
                    .batch("INSERT INTO ks.u (k) VALUES (7)")
                    .query("USE ks")
                    .query("UPDATE ks.t SET v = 1 WHERE k = 8 IF EXISTS")
                    .query("SELECT now() FROM ks.t");
        }
        try (QueryLog log = new QueryLog(List.of(directory))) {
            Selection selection =
                    new Selection(log, Set.of(new TableSchema.Table("ks", "t")), Long.MAX_VALUE);
            List<String> selected = new ArrayList<>();
            for (Selection.Selected next = selection.next(); next != null; next = selection.next())
                selected.add(next.query().cql());
            assertThat(selected)
                    .containsExactly(
                            "LOGGED BATCH: INSERT INTO ks.t (k) VALUES (1); DELETE FROM ks.t WHERE"
                                    + " k = 2",
                            "UPDATE ks.t SET v = 1 WHERE k = 8 IF EXISTS",
                            "SELECT now() FROM ks.t");
            assertThat(selection.left())
                    .isEqualTo(
                            Map.of(
                                    Selection.Reason.PARTLY_OTHER_TABLE,
                                    2L,
                                    Selection.Reason.OTHER_TABLE,
                                    1L,
                                    Selection.Reason.OTHER_STATEMENT,
                                    1L));
            assertThat(selection.conditionals()).isEqualTo(1);
            assertThat(selection.volatiles()).isEqualTo(1);
        }
    }
}
