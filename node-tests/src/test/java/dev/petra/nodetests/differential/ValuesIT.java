// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.differential;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import dev.petra.nodetests.fixture.TestNode;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Values at the edge, through a driver, on a table in the engine and on one in Cassandra's own
 * storage: both give the same rows or refuse the same statements. After each, other tables live.
 */
class ValuesIT {
    @TempDir static Path directory;
    private static TestNode node;
    private static CqlSession session;

    @BeforeAll
    static void start() {
        node = TestNode.start(directory);
        session = node.plainSession();
        TestNode.createKeyspace(session, "ks", 1);
        for (String memtable : List.of("rocks", "default")) {
            String name = "ks." + memtable + "_";
            String with = " WITH memtable = '" + memtable + "'";
            session.execute(
                    "CREATE TABLE "
                            + name
                            + "t (k text, c text, s int static, v text, m map<text, int>,"
                            + " PRIMARY KEY (k, c))"
                            + with);
            session.execute("CREATE TABLE " + name + "b (k blob PRIMARY KEY, v blob)" + with);
            session.execute(
                    "CREATE TABLE "
                            + name
                            + "d (k int, a double, b varint, v int, PRIMARY KEY (k, a, b))"
                            + with);
        }
    }

    @AfterAll
    static void stop() {
        if (session != null) session.close();
        if (node != null) node.close();
    }

    /** Runs on both kinds of table; {@code #} stands for the table's prefix. */
    private static void both(String cql, Object... values) {
        for (String memtable : List.of("rocks", "default"))
            session.execute(
                    SimpleStatement.newInstance(cql.replace("#", "ks." + memtable + "_"), values));
    }

    /** What a query gives, which must be the same on both kinds of table. */
    private static List<String> same(String cql, Object... values) {
        List<String> rocks = rows("rocks", cql, values);
        assertThat(rocks).describedAs(cql).isEqualTo(rows("default", cql, values));
        return rocks;
    }

    private static List<String> rows(String memtable, String cql, Object... values) {
        return session
                .execute(
                        SimpleStatement.newInstance(
                                cql.replace("#", "ks." + memtable + "_"), values))
                .all()
                .stream()
                .map(Row::getFormattedContents)
                .toList();
    }

    private static void bothRefuse(String cql, Object... values) {
        for (String memtable : List.of("rocks", "default"))
            assertThatThrownBy(
                            () ->
                                    session.execute(
                                            SimpleStatement.newInstance(
                                                    cql.replace("#", "ks." + memtable + "_"),
                                                    values)))
                    .describedAs("%s on %s", cql, memtable);
        same("SELECT count(*) FROM #t");
    }

    @Test
    void theLargestPartitionKeyAndOneMore() {
        ByteBuffer largest = ByteBuffer.allocate(65_535);
        Arrays.fill(largest.array(), (byte) 0);
        both("INSERT INTO #b (k, v) VALUES (?, ?)", largest, largest);
        assertThat(same("SELECT v FROM #b WHERE k = ?", largest)).hasSize(1);
        bothRefuse("INSERT INTO #b (k, v) VALUES (?, ?)", ByteBuffer.allocate(65_536), largest);
        same("SELECT * FROM #b");
    }

    @Test
    void anEmptyPartitionKeyIsRefused() {
        bothRefuse("INSERT INTO #b (k, v) VALUES (?, ?)", ByteBuffer.allocate(0), largeBlob(1));
    }

    @Test
    void emptyClusteringsAndLargeOnes() {
        String large = "c".repeat(65_000);
        both("INSERT INTO #t (k, c, v) VALUES ('e', '', 'empty')");
        both("INSERT INTO #t (k, c, v) VALUES ('e', ?, 'large')", large);
        both("INSERT INTO #t (k, c, v) VALUES ('e', ?, 'zeros')", "\0\0");
        assertThat(same("SELECT * FROM #t WHERE k = 'e'")).hasSize(3);
        same("SELECT * FROM #t WHERE k = 'e' AND c = ''");
        same("SELECT * FROM #t WHERE k = 'e' AND c > ''");
        same("SELECT * FROM #t WHERE k = 'e' AND c <= ? ORDER BY c DESC", "\0\0");
    }

    @Test
    void aValueOfTenMebibytesAndOneOverTheMutationLimit() {
        ByteBuffer ten = largeBlob(10 << 20);
        both("INSERT INTO #b (k, v) VALUES (0x01, ?)", ten);
        for (String memtable : List.of("rocks", "default"))
            assertThat(
                            session.execute("SELECT v FROM ks." + memtable + "_b WHERE k = 0x01")
                                    .one()
                                    .getByteBuffer("v"))
                    .isEqualTo(ten);
        bothRefuse("INSERT INTO #b (k, v) VALUES (0x02, ?)", largeBlob(17 << 20));
        assertThat(same("SELECT k FROM #b WHERE k = 0x02")).isEmpty();
    }

    private static ByteBuffer largeBlob(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) bytes[i] = (byte) ((i * 31) >>> 3);
        return ByteBuffer.wrap(bytes);
    }

    @Test
    void timestampsAtBothEnds() {
        long max = Long.MAX_VALUE;
        both("INSERT INTO #t (k, c, v) VALUES ('ts', 'max', 'a') USING TIMESTAMP " + max);
        both("INSERT INTO #t (k, c, v) VALUES ('ts', 'max', 'b') USING TIMESTAMP 1");
        both("DELETE FROM #t USING TIMESTAMP 5 WHERE k = 'ts' AND c = 'max'");
        long min = Long.MIN_VALUE + 1;
        both("INSERT INTO #t (k, c, v) VALUES ('ts', 'min', 'a') USING TIMESTAMP " + min);
        both("INSERT INTO #t (k, c, v) VALUES ('ts', 'minus', 'a') USING TIMESTAMP -1");
        both("DELETE FROM #t USING TIMESTAMP -2 WHERE k = 'ts' AND c = 'minus'");
        bothRefuse(
                "INSERT INTO #t (k, c, v) VALUES ('ts', 'no', 'a') USING TIMESTAMP "
                        + Long.MIN_VALUE);
        assertThat(same("SELECT c, v, writetime(v) FROM #t WHERE k = 'ts'")).hasSize(3);
    }

    @Test
    void timeToLiveAtItsLimitAndOverIt() {
        // Until all nodes may use larger times (storage_compatibility_mode), expiry ends in 2038.
        int left = (int) (Integer.MAX_VALUE - 1 - System.currentTimeMillis() / 1_000);
        both("INSERT INTO #t (k, c, v) VALUES ('ttl', 'a', 'x') USING TTL " + (left - 60));
        both("INSERT INTO #t (k, c, v) VALUES ('ttl', 'b', 'x') USING TTL 0");
        bothRefuse("INSERT INTO #t (k, c, v) VALUES ('ttl', 'c', 'x') USING TTL " + (left + 60));
        bothRefuse("INSERT INTO #t (k, c, v) VALUES ('ttl', 'c', 'x') USING TTL -1");
        assertThat(same("SELECT c, v FROM #t WHERE k = 'ttl'")).hasSize(2);
    }

    @Test
    void expiryIsSeenWithoutAnyCompaction() throws InterruptedException {
        both("INSERT INTO #t (k, c, v) VALUES ('exp', 'a', 'x') USING TTL 1");
        both("INSERT INTO #t (k, c, v) VALUES ('exp', 'b', 'x')");
        both("UPDATE #t USING TTL 1 SET v = 'y' WHERE k = 'exp' AND c = 'b'");
        Thread.sleep(2_100);
        assertThat(same("SELECT c, v FROM #t WHERE k = 'exp'")).hasSize(1);
    }

    @Test
    void deletionsOfEveryKindWithTheirTimestamps() {
        for (int i = 0; i < 20; i++) {
            both(
                    "INSERT INTO #t (k, c, v, m) VALUES ('del', ?, ?, {'a': 1, 'b': 2})"
                            + " USING TIMESTAMP 100",
                    "c" + i,
                    "v" + i);
        }
        both("UPDATE #t USING TIMESTAMP 100 SET s = 7 WHERE k = 'del'");
        both("DELETE v FROM #t USING TIMESTAMP 101 WHERE k = 'del' AND c = 'c1'");
        both("DELETE m['a'] FROM #t USING TIMESTAMP 101 WHERE k = 'del' AND c = 'c2'");
        both("DELETE m FROM #t USING TIMESTAMP 101 WHERE k = 'del' AND c = 'c3'");
        both("DELETE FROM #t USING TIMESTAMP 101 WHERE k = 'del' AND c = 'c4'");
        both("DELETE FROM #t USING TIMESTAMP 101 WHERE k = 'del' AND c >= 'c5' AND c < 'c7'");
        both("DELETE FROM #t USING TIMESTAMP 99 WHERE k = 'del' AND c > 'c7'");
        both("UPDATE #t USING TIMESTAMP 102 SET m['z'] = 9 WHERE k = 'del' AND c = 'c3'");
        same("SELECT * FROM #t WHERE k = 'del'");
        same("SELECT * FROM #t WHERE k = 'del' ORDER BY c DESC");
        same("SELECT c, m['b'] FROM #t WHERE k = 'del' AND c > 'c12' LIMIT 4");
        same("SELECT DISTINCT k, s FROM #t WHERE k = 'del'");
        both("DELETE FROM #t USING TIMESTAMP 100 WHERE k = 'del'");
        assertThat(same("SELECT c, m FROM #t WHERE k = 'del'")).hasSize(1);
        both("INSERT INTO #t (k, c, v) VALUES ('del', 'c1', 'again') USING TIMESTAMP 103");
        same("SELECT * FROM #t WHERE k = 'del'");
    }

    @Test
    void numbersInSeveralFormsAreOneRow() {
        ByteBuffer negativeNan = ByteBuffer.allocate(8).putLong(0, 0xFFF8000000000001L);
        for (double a : new double[] {Double.NaN, 0.0, -0.0, Double.NEGATIVE_INFINITY, 1e300})
            both(
                    "INSERT INTO #d (k, a, b, v) VALUES (1, ?, ?, 1)",
                    a,
                    java.math.BigInteger.valueOf(5));
        for (String memtable : List.of("rocks", "default")) {
            var insert =
                    session.prepare(
                            "INSERT INTO ks." + memtable + "_d (k, a, b, v) VALUES (1, ?, ?, 2)");
            session.execute(
                    insert.bind()
                            .setBytesUnsafe(0, negativeNan)
                            .setBytesUnsafe(1, ByteBuffer.wrap(new byte[] {0, 0, 5})));
            session.execute(
                    insert.bind()
                            .setDouble(0, 2.5)
                            .setBytesUnsafe(1, ByteBuffer.wrap(new byte[12])));
        }
        assertThat(same("SELECT * FROM #d WHERE k = 1")).hasSize(6);
        same("SELECT * FROM #d WHERE k = 1 AND a > 0");
        same("SELECT * FROM #d WHERE k = 1 AND a = 2.5 AND b = 0");
        same("SELECT * FROM #d WHERE k = 1 ORDER BY a DESC");
    }

    @Test
    void logicInOneStatementAndConditions() {
        both("INSERT INTO #t (k, c, v) VALUES ('lwt', 'a', 'x') IF NOT EXISTS");
        both("INSERT INTO #t (k, c, v) VALUES ('lwt', 'a', 'y') IF NOT EXISTS");
        both("UPDATE #t SET v = 'z' WHERE k = 'lwt' AND c = 'a' IF v = 'x'");
        both("UPDATE #t SET s = 1 WHERE k = 'lwt' IF s = null");
        assertThat(same("SELECT k, c, s, v FROM #t WHERE k = 'lwt'").toString()).contains("'z'");
    }
}
