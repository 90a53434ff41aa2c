// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.metadata.Node;
import java.util.Set;
import java.util.TreeSet;

/** What tables have, and how some of it is deleted. */
final class Contents {
    /** Cassandra's, of a query that the node answers from its own data: the driver lacks it. */
    private static final ConsistencyLevel NODE_LOCAL =
            new ConsistencyLevel() {
                @Override
                public int getProtocolCode() {
                    return 11;
                }

                @Override
                public String name() {
                    return "NODE_LOCAL";
                }

                @Override
                public boolean isDcLocal() {
                    return true;
                }

                @Override
                public boolean isSerial() {
                    return false;
                }
            };

    private Contents() {}

    /** What a query gives, as text, whatever the order of the partitions. */
    static Set<String> of(CqlSession session, String select) {
        return of(session, SimpleStatement.newInstance(select));
    }

    /** What one node has by itself, also of what is not its own. */
    static Set<String> alone(TestNode node, String select) {
        try (CqlSession session = node.session()) {
            Node itself =
                    session.getMetadata().getNodes().values().stream()
                            .filter(each -> each.getEndPoint().resolve().equals(node.cqlAddress()))
                            .findFirst()
                            .orElseThrow();
            return of(
                    session,
                    SimpleStatement.newInstance(select)
                            .setConsistencyLevel(NODE_LOCAL)
                            .setNode(itself));
        }
    }

    private static Set<String> of(CqlSession session, SimpleStatement select) {
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
