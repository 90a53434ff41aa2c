// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import com.datastax.oss.driver.api.core.CqlSession;
import java.util.Set;
import java.util.TreeSet;

/** What tables have, and how some of it is deleted. */
final class Contents {
    private Contents() {}

    /** What a query gives, as text, whatever the order of the partitions. */
    static Set<String> of(CqlSession session, String select) {
        Set<String> rows = new TreeSet<>();
        session.execute(select).forEach(row -> rows.add(row.getFormattedContents()));
        return rows;
    }

    /**
     * Deletes from a partition of {@code ks.t}, with columns {@code p}, {@code c}, {@code v} and
     * the static {@code s}, what its number says: all, a range, a row, cells, or nothing.
     */
    static void deleteFrom(CqlSession session, int p) {
        switch (p % 7) {
            case 0 -> session.execute("DELETE FROM ks.t WHERE p = ?", p);
            case 1 -> session.execute("DELETE FROM ks.t WHERE p = ? AND c > 1", p);
            case 2 -> session.execute("DELETE FROM ks.t WHERE p = ? AND c = 0", p);
            case 3 -> session.execute("DELETE s, v FROM ks.t WHERE p = ? AND c = 0", p);
            default -> {}
        }
    }
}
