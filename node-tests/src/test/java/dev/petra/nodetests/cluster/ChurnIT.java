// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeException;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import dev.petra.nodetests.fixture.Writer;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * A cluster of three to five nodes, three replicas of everything, through random changes, one after
 * the other: nodes come, go, are replaced and removed, die and are repaired, while their links are
 * cut, slow or corrupt bytes, and while there are writes at QUORUM. After each change all that was
 * acknowledged is there at ALL and nothing deleted is; and a table that was written at ALL is equal
 * on its replicas without any repair, so that what a stream forgot is not hidden by the others.
 *
 * <p>{@code -Dpetra.churn.minutes} says how long, {@code -Dpetra.churn.seed} repeats the choices
 * (not the timing), {@code -Dpetra.churn.mixed=true} gives every second node Cassandra's own
 * storage.
 */
@OneOf(variants = "clusters that change", of = 4, number = 3)
class ChurnIT {
    private static final int MINUTES = Integer.getInteger("petra.churn.minutes", 1);
    private static final long SEED = Long.getLong("petra.churn.seed", System.nanoTime() >>> 8);
    private static final boolean MIXED = Boolean.getBoolean("petra.churn.mixed");

    private static final Duration PATIENCE = Duration.ofMinutes(5);
    private static final int FEWEST = 3;
    private static final int MOST = 5;
    private static final int PARTITIONS = 500;
    private static final int ROWS = 4;
    private static final int VALUE = 2_000;
    private static final int WRITERS = 3;

    private enum Change {
        BOOTSTRAP,
        DECOMMISSION,
        REPLACE,
        REMOVE,
        CRASH,
        ISOLATE,
        REPAIR
    }

    /** What befalls a node while something else goes on. */
    private enum Mishap {
        NONE,
        CUT,
        SLOW,
        CORRUPT,
        KILL
    }

    /** A node and the way of the others to it. */
    private record Member(int number, TestNode node, Link link) {
        static String address(int number) {
            return "127.0.1." + number;
        }

        /** It does not come back. */
        void leave() throws IOException {
            node.close();
            link.close();
        }
    }

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private final int port = FreePorts.next();
    private final Random random = new Random(SEED);
    private final int tokens = List.of(1, 4, 16).get(random.nextInt(3));
    private final List<Member> members = new ArrayList<>();
    private final Map<Change, Integer> changes = new EnumMap<>(Change.class);
    private final Map<Mishap, Integer> mishaps = new EnumMap<>(Mishap.class);
    private int repeated;
    private int numbers;

    @AfterEach
    void end() throws IOException {
        for (Member member : members) member.leave();
    }

    @Test
    void nothingIsLostAndNothingComesBack() throws Exception {
        say("seed %d, %d minute(s), %d token(s), mixed %s".formatted(SEED, MINUTES, tokens, MIXED));
        for (int i = 0; i < FEWEST; i++) begin().node().process().awaitCql(PATIENCE);
        try (CqlSession all = members.get(0).node().session(ConsistencyLevel.ALL);
                CqlSession quorum = members.get(0).node().session(ConsistencyLevel.QUORUM)) {
            create(all);
            write(all, 0, PARTITIONS);
            List<Writer> past = new ArrayList<>();
            long end = System.nanoTime() + Duration.ofMinutes(MINUTES).toNanos();
            for (int step = 0; step == 0 || System.nanoTime() < end; step++) {
                Set<String> expected = content(all);
                past.addAll(change(step, all, quorum));
                assertThat(content(all)).isEqualTo(expected);
                assertReplicasAreEqual();
                for (Writer writer : past) writer.check(all);
                write(all, PARTITIONS + step * 10, PARTITIONS + step * 10 + 10);
                all.execute("DELETE FROM ks.t WHERE p = ?", random.nextInt(PARTITIONS));
            }
            Set<String> expected = content(all);
            for (Member member : members) member.node().nodetool("cleanup", "ks");
            for (Member member : members)
                member.node().nodetool("verify", "--force", "-e", "--check-tokens", "ks", "t");
            awaitCalm(all);
            assertThat(content(all)).isEqualTo(expected);
            assertReplicasAreEqual();
            for (Writer writer : past) writer.check(all);
            say(
                    "changes %s, mishaps %s, repeated %d times, %d writes acknowledged"
                            .formatted(
                                    changes,
                                    mishaps,
                                    repeated,
                                    past.stream().mapToInt(Writer::acknowledged).sum()));
        }
    }

    private static void say(String what) {
        System.out.println(
                "ChurnIT: " + Instant.now().truncatedTo(ChronoUnit.SECONDS) + " " + what);
    }

    // Data

    private static void create(CqlSession session) {
        TestNode.createKeyspace(session, "ks", 3);
        session.execute(
                "CREATE TABLE ks.t (p int, c int, v blob, s text static, PRIMARY KEY (p, c)) WITH"
                        + " memtable = 'mixed' AND read_repair = 'NONE'");
        session.execute(
                Writer.table("ks.load") + " WITH memtable = 'mixed' AND read_repair = 'NONE'");
    }

    /** Rows that do not compress, and deletions of every kind among them. */
    private void write(CqlSession session, int from, int to) {
        var insert = session.prepare("INSERT INTO ks.t (p, c, v, s) VALUES (?, ?, ?, ?)");
        for (int p = from; p < to; p++) {
            BatchStatementBuilder rows = BatchStatement.builder(DefaultBatchType.UNLOGGED);
            for (int c = 0; c < ROWS; c++) {
                byte[] value = new byte[VALUE];
                random.nextBytes(value);
                rows.addStatement(insert.bind(p, c, ByteBuffer.wrap(value), "s" + p));
            }
            session.execute(rows.build());
            Contents.deleteFrom(session, p);
        }
    }

    private static Set<String> content(CqlSession session) {
        return Contents.of(session, "SELECT p, c, v, s, writetime(v) FROM ks.t");
    }

    // Changes

    /** Makes one under writes and waits until all is calm again. */
    private List<Writer> change(int step, CqlSession all, CqlSession quorum) throws Exception {
        Change change = choose();
        changes.merge(change, 1, Integer::sum);
        say(
                "step %d, nodes %s: %s"
                        .formatted(step, members.stream().map(Member::number).toList(), change));
        // What QUORUM acknowledged must not be on that one replica only which is lost.
        if (change == Change.REPLACE || change == Change.REMOVE) repair(seed(), Mishap.NONE);
        List<Writer> writers = new ArrayList<>();
        for (int w = 0; w < WRITERS; w++)
            writers.add(new Writer(quorum, "ks.load", step, w).persistent());
        writers.forEach(Thread::start);
        // Else one may begin at a node that is cut off, and wait there for longer than the change.
        TestNode.await(
                "writes",
                PATIENCE,
                () -> writers.stream().allMatch(writer -> writer.acknowledged() > 0));
        switch (change) {
            case BOOTSTRAP -> join(begin());
            case DECOMMISSION -> decommission(anyButTheSeed());
            case REPLACE -> {
                Member lost = lose(anyButTheSeed());
                join(
                        begin(
                                "-Dcassandra.replace_address_first_boot="
                                        + Member.address(lost.number())));
            }
            case REMOVE -> {
                lose(anyButTheSeed());
                seed().node().nodetool("removenode", seed().node().awaitDead());
            }
            case CRASH -> befall(Mishap.KILL, any());
            case ISOLATE -> befall(mishap(false), any());
            case REPAIR -> repair(any(), mishap(true));
        }
        for (Writer writer : writers) {
            writer.halt();
            writer.join();
            assertThat(writer.failure()).isNull();
            assertThat(writer.acknowledged()).isPositive();
        }
        awaitCalm(all);
        return writers;
    }

    private Change choose() {
        while (true) {
            Change change = Change.values()[random.nextInt(Change.values().length)];
            boolean possible =
                    switch (change) {
                        case BOOTSTRAP -> members.size() < MOST;
                        case DECOMMISSION, REMOVE -> members.size() > FEWEST;
                        default -> true;
                    };
            if (possible) return change;
        }
    }

    private Mishap mishap(boolean kill) {
        return Mishap.values()[random.nextInt(Mishap.values().length - (kill ? 0 : 1))];
    }

    private Member seed() {
        return members.get(0);
    }

    private Member any() {
        return members.get(random.nextInt(members.size()));
    }

    private Member anyButTheSeed() {
        return members.get(1 + random.nextInt(members.size() - 1));
    }

    /** Lets a node begin to join, or to take the place of another. */
    private Member begin(String... jvmOptions) throws IOException {
        int number = ++numbers;
        String listens = "127.0.0." + number;
        Link link = new Link(Member.address(number), listens, port);
        Map<String, Object> yaml = new LinkedHashMap<>(TestNode.mixed(!MIXED || number % 2 == 1));
        yaml.put("broadcast_address", Member.address(number));
        // Slow enough for mishaps to meet it.
        yaml.put("entire_sstable_stream_throughput_outbound", "1MiB/s");
        // A whole SSTable of Cassandra's is taken as it comes, with whatever is wrong with it.
        yaml.put("stream_entire_sstables", false);
        UnaryOperator<NodeConfig.Builder> options =
                config ->
                        config.yaml(yaml)
                                .engineParameters(
                                        Map.of(
                                                "engine", "rocks",
                                                "memory", "128MiB",
                                                "stream_part", "1MiB"))
                                .address(listens)
                                .storagePort(port)
                                .numTokens(tokens)
                                .seeds(List.of(Member.address(1) + ":" + port))
                                // Mishaps and a busy machine make gossip slow, and a node that has
                                // heard of no keyspace yet streams nothing.
                                .jvmOptions("-Dcassandra.ring_delay_ms=12000")
                                // What has come already is not asked for again.
                                .jvmOptions("-Dcassandra.reset_bootstrap_progress=false")
                                .jvmOptions(jvmOptions);
        TestNode node =
                TestNode.begin(Files.createDirectory(directory.resolve("n" + number)), options);
        Member member = new Member(number, node, link);
        members.add(member);
        return member;
    }

    /** Sees a node through its bootstrap, whatever happens to it or to who sends. */
    private void join(Member newcomer) throws Exception {
        TestNode node = newcomer.node();
        node.awaitLog("Starting to bootstrap", PATIENCE);
        befall(mishap(true), any());
        TestNode.await("the bootstrap", PATIENCE, () -> joined(node));
    }

    private boolean joined(TestNode node) {
        try {
            node.process().awaitCql(Duration.ofSeconds(5));
            return true;
        } catch (NodeException e) {
            if (!node.process().isAlive()) {
                repeated++;
                node.process().start();
            } else if (node.process().logSinceStart().contains("not yet bootstrapped completely")) {
                repeated++;
                say("resume: " + lastLine(node.tryNodetool("bootstrap", "resume", "--force")));
            }
            return false;
        }
    }

    private void decommission(Member leaver) throws Exception {
        persist(leaver, mishap(true), "decommission", "-f");
        leaver.leave();
        members.remove(leaver);
    }

    private void repair(Member by, Mishap mishap) throws Exception {
        persist(by, mishap, "repair", "-full", "ks");
    }

    /** A verb during which something happens, until it succeeds. */
    private void persist(Member by, Mishap mishap, String... verb) throws Exception {
        CompletableFuture<NodeTool.Result> first =
                CompletableFuture.supplyAsync(() -> by.node().tryNodetool(verb));
        befall(mishap, any());
        if (succeeds(verb, first.get(PATIENCE.toSeconds(), TimeUnit.SECONDS))) return;
        TestNode.await(
                verb[0],
                PATIENCE,
                () -> {
                    repeated++;
                    return succeeds(verb, by.node().tryNodetool(verb));
                });
    }

    private static boolean succeeds(String[] verb, NodeTool.Result result) {
        if (result.exitCode() == 0) return true;
        say(verb[0] + ": " + lastLine(result));
        return false;
    }

    private static String lastLine(NodeTool.Result result) {
        return result.exitCode() + " " + result.output().strip().lines().reduce("", (a, b) -> b);
    }

    private void befall(Mishap mishap, Member victim) throws Exception {
        say("%s befalls node %d".formatted(mishap, victim.number()));
        mishaps.merge(mishap, 1, Integer::sum);
        TimeUnit.MILLISECONDS.sleep(random.nextInt(4_000));
        int length = 500 + random.nextInt(6_000);
        if (mishap == Mishap.KILL) {
            victim.node().process().kill();
            TimeUnit.MILLISECONDS.sleep(length);
            victim.node().process().start();
        } else {
            victim.link().set(Link.Fault.valueOf(mishap.name()));
            TimeUnit.MILLISECONDS.sleep(length);
            victim.link().set(Link.Fault.NONE);
        }
    }

    /** Kills it for good, and waits until the seed has noticed. */
    private Member lose(Member victim) throws Exception {
        victim.leave();
        members.remove(victim);
        seed().node().awaitDead();
        return victim;
    }

    /** Until all nodes are up and have what they were sent. */
    private void awaitCalm(CqlSession all) throws Exception {
        for (Member member : members) member.node().process().awaitCql(PATIENCE);
        seed().node().awaitRing(members.size());
        TestNode.awaitSameRing(members.stream().map(Member::node).toList());
        TestNode.await("all nodes answer", PATIENCE, () -> answers(all));
        if (MIXED) TestNode.awaitMigrations(all, PATIENCE);
    }

    /** Whether every coordinator that the driver chooses sees all replicas. */
    private static boolean answers(CqlSession all) {
        try {
            for (int i = 0; i < 3 * MOST; i++)
                all.execute("INSERT INTO ks.load (cycle, writer, step) VALUES (-1, ?, 0)", i);
            return true;
        } catch (DriverException e) {
            return false;
        }
    }

    /** Without a repair: what was written at ALL must have come whole with every stream. */
    private void assertReplicasAreEqual() throws Exception {
        TestNode.await(
                "a preview of a repair",
                PATIENCE,
                () -> {
                    String preview =
                            seed().node()
                                    .tryNodetool("repair", "--preview", "-full", "ks", "t")
                                    .output();
                    assertThat(preview).doesNotContain("Total estimated streaming");
                    return preview.contains("Previewed data was in sync");
                });
    }
}
