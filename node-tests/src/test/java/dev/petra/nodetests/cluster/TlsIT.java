// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.launcher.NodeTool;
import dev.petra.nodetests.fixture.Commands;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.OneOf;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Nodes and clients that talk by TLS only, and clients that log in: what the engine streams goes
 * through Cassandra's connections, so it is encrypted as well, and whoever has no certificate gets
 * nothing.
 */
@OneOf(variants = "what operators set up: installation, TLS", of = 2, number = 2)
class TlsIT {
    private static final String PASSWORD = "for tests";
    private static final String SELECT = "SELECT p, c, v, writetime(v) FROM ks.t";

    /** Larger than a record of TLS (16 KiB), so that blocks are cut and joined on their way. */
    private static final int VALUE = 100_000;

    private static final int PARTITIONS = 100;
    private static final Duration PATIENCE = Duration.ofMinutes(2);

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    Path directory;

    private Path keys;
    private Path trusted;

    @BeforeEach
    void certificates() throws IOException, InterruptedException {
        keys = directory.resolve("keys.p12");
        trusted = directory.resolve("trusted.p12");
        Path certificate = directory.resolve("node.crt");
        keytool(keys, "-genkeypair", "-alias", "node", "-keyalg", "EC", "-dname", "CN=node");
        keytool(keys, "-exportcert", "-alias", "node", "-file", certificate + "");
        keytool(trusted, "-importcert", "-noprompt", "-alias", "node", "-file", certificate + "");
    }

    private static void keytool(Path store, String... command)
            throws IOException, InterruptedException {
        List<String> all = new ArrayList<>();
        all.add(Path.of(System.getProperty("java.home"), "bin", "keytool").toString());
        all.addAll(List.of(command));
        all.addAll(List.of("-keystore", store + "", "-storetype", "PKCS12"));
        all.addAll(List.of("-storepass", PASSWORD));
        Process process = new ProcessBuilder(all).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).describedAs(output).isZero();
    }

    private NodeConfig.Builder encrypted(NodeConfig.Builder options) {
        return options.numTokens(4)
                .engineParameters(
                        Map.of("engine", "rocks", "memory", "128MiB", "stream_part", "1MiB"))
                .yaml(
                        Map.of(
                                "authenticator",
                                "PasswordAuthenticator",
                                "authorizer",
                                "CassandraAuthorizer",
                                "server_encryption_options",
                                tls("internode_encryption", "all"),
                                "client_encryption_options",
                                tls("enabled", true)))
                .jvmOptions("-Dcassandra.superuser_setup_delay_ms=0");
    }

    /** What both sections have, and what turns one on. */
    private Map<String, Object> tls(String option, Object value) {
        return Map.of(
                option,
                value,
                "optional",
                false,
                "require_client_auth",
                true,
                "keystore",
                keys + "",
                "keystore_password",
                PASSWORD,
                "truststore",
                trusted + "",
                "truststore_password",
                PASSWORD,
                "store_type",
                "PKCS12");
    }

    private SSLContext ssl() throws IOException, GeneralSecurityException {
        KeyManagerFactory own =
                KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        own.init(store(keys), PASSWORD.toCharArray());
        TrustManagerFactory others =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        others.init(store(trusted));
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own.getKeyManagers(), others.getTrustManagers(), null);
        return context;
    }

    private static KeyStore store(Path file) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, PASSWORD.toCharArray());
        }
        return store;
    }

    /** Of the first node, which makes the role. */
    private CqlSession firstSession(TestNode node) throws Exception {
        node.awaitLog("Created default superuser role 'cassandra'", PATIENCE);
        return session(node);
    }

    private CqlSession session(TestNode node) throws IOException, GeneralSecurityException {
        return node.session("cassandra", "cassandra", ssl());
    }

    /** Commands of {@code bin/petra} that talk CQL. */
    private void commandsLogIn(TestNode node) throws IOException, InterruptedException {
        NodeTool.Result count = cql(node, "cassandra", encrypted());
        assertThat(count.exitCode()).describedAs(count.output()).isZero();
        assertThat(count.output()).contains(2 * (PARTITIONS - 1) + "");
        assertThat(cql(node, "", encrypted()).output())
                .contains("--username needs a password", "PETRA_CQL_PASSWORD");
        assertThat(cql(node, "cassandra", "--password").output()).contains("no terminal");
        NodeTool.Result wrong = cql(node, "wrong", encrypted());
        assertThat(wrong.exitCode()).isEqualTo(1);
        assertThat(wrong.output()).contains("Provided username cassandra and/or password");
        assertThat(cql(node, "cassandra", "--truststore=/nowhere").output())
                .contains("cannot read /nowhere");
        // Whose certificate is of no address.
        List<String> checked = new ArrayList<>(List.of(encrypted()));
        checked.remove("--any-address");
        for (String[] refused :
                List.of(new String[] {}, new String[] {"--ssl"}, checked.toArray(String[]::new))) {
            NodeTool.Result result = cql(node, "cassandra", refused);
            assertThat(result.exitCode()).describedAs(result.output()).isEqualTo(1);
        }
    }

    private String[] encrypted() {
        return new String[] {"--truststore=" + trusted, "--keystore=" + keys, "--any-address"};
    }

    /** The statements of docs/operations.md. */
    private void operatorsNeedAGrant(TestNode node, CqlSession session) throws Exception {
        session.execute("CREATE ROLE operator WITH PASSWORD = 'operator' AND LOGIN = true");
        String[] report =
                Stream.concat(
                                Stream.of("shadow", "report", "--username=operator"),
                                Stream.of(encrypted()))
                        .toArray(String[]::new);
        assertThat(petra(node, "operator", report).output()).contains("no SELECT permission");
        String page = Files.readString(Path.of("../docs/operations.md"));
        List<String> grants = page.lines().filter(line -> line.startsWith("GRANT ")).toList();
        assertThat(grants).hasSize(7);
        for (String grant : grants) session.execute(grant);
        TestNode.await(
                "a permission that is not cached",
                PATIENCE,
                () -> petra(node, "operator", report).output().contains("No table has a shadow."));
        String[] compare = report.clone();
        compare[0] = "compare";
        compare[1] = "ks.t";
        assertThat(petra(node, "operator", compare).output()).contains("no shadow");
        String[] anew =
                Stream.concat(
                                Stream.of("shadow", "anew", "ks.t", "--username=operator"),
                                Stream.of(encrypted()))
                        .toArray(String[]::new);
        assertThat(petra(node, "operator", anew).output()).contains("has none on this node");
    }

    private static NodeTool.Result cql(TestNode node, String password, String... options)
            throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("cql", "--username=cassandra"));
        command.addAll(List.of(options));
        command.add("SELECT count(*) FROM ks.t");
        return petra(node, password, command.toArray(String[]::new));
    }

    private static NodeTool.Result petra(TestNode node, String password, String... arguments)
            throws IOException, InterruptedException {
        List<String> command = Commands.forNode(node, arguments);
        command.add(0, Commands.PETRA.toString());
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().remove("PETRA_CQL_PASSWORD");
        builder.environment().put("PETRA_TRUSTSTORE_PASSWORD", PASSWORD);
        builder.environment().put("PETRA_KEYSTORE_PASSWORD", PASSWORD);
        if (!password.isEmpty()) builder.environment().put("PETRA_CQL_PASSWORD", password);
        return Commands.run(builder);
    }

    @Test
    void aNodeJoinsIsRepairedAndLeavesByTls() throws Exception {
        int seedPort = FreePorts.next();
        try (TestNode seed =
                        TestNode.start(
                                directory.resolve("seed"),
                                options -> encrypted(options).storagePort(seedPort));
                CqlSession session = firstSession(seed)) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute(
                    "CREATE TABLE ks.t (p int, c int, v blob, PRIMARY KEY (p, c)) WITH memtable ="
                            + " 'rocks'");
            Random random = new Random(1);
            var insert = session.prepare("INSERT INTO ks.t (p, c, v) VALUES (?, ?, ?)");
            byte[] value = new byte[VALUE];
            for (int p = 0; p < PARTITIONS; p++)
                for (int c = 0; c < 2; c++) {
                    random.nextBytes(value);
                    session.execute(insert.bind(p, c, ByteBuffer.wrap(value.clone())));
                }
            session.execute("DELETE FROM ks.t WHERE p = 7");
            Set<String> content = Contents.of(session, SELECT);
            assertThatThrownBy(() -> seed.session().close())
                    .isInstanceOf(AllNodesFailedException.class);
            commandsLogIn(seed);
            operatorsNeedAGrant(seed, session);
            try (TestNode newcomer =
                    TestNode.start(
                            directory.resolve("newcomer"),
                            options ->
                                    encrypted(options).seeds(List.of("127.0.0.1:" + seedPort)))) {
                assertThat(newcomer.process().log())
                        .contains("slices into ks.t")
                        .contains("encryption = encrypted")
                        .doesNotContain("encryption = unencrypted");
                for (TestNode node : List.of(seed, newcomer)) node.awaitRing(2);
                seed.nodetool("cleanup", "ks");
                assertThat(Contents.of(session, SELECT)).isEqualTo(content);

                // Each has both halves afterwards.
                session.execute(
                        "ALTER KEYSPACE ks WITH replication = {'class': 'SimpleStrategy',"
                                + " 'replication_factor': 2}");
                seed.nodetool("repair", "--full", "ks");
                try (CqlSession other = session(newcomer)) {
                    for (CqlSession each : List.of(session, other))
                        assertThat(Contents.of(each, SELECT)).isEqualTo(content);
                }
                newcomer.nodetool("decommission", "--force");
            }
            assertThat(Contents.of(session, SELECT)).isEqualTo(content);
        }
    }
}
