// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.cluster;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.datastax.oss.driver.api.core.AllNodesFailedException;
import com.datastax.oss.driver.api.core.CqlSession;
import dev.petra.launcher.FreePorts;
import dev.petra.launcher.NodeConfig;
import dev.petra.nodetests.fixture.Contents;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;

/**
 * Nodes and clients that talk by TLS only: what the engine streams goes through Cassandra's
 * connections, so it is encrypted as well, and whoever has no certificate gets nothing.
 */
class TlsIT {
    private static final String PASSWORD = "for tests";
    private static final String SELECT = "SELECT p, c, v, writetime(v) FROM ks.t";

    /** Larger than a record of TLS (16 KiB), so that blocks are cut and joined on their way. */
    private static final int VALUE = 100_000;

    private static final int PARTITIONS = 100;

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
                                "server_encryption_options",
                                tls("internode_encryption", "all"),
                                "client_encryption_options",
                                tls("enabled", true)));
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

    @Test
    void aNodeJoinsIsRepairedAndLeavesByTls() throws Exception {
        int seedPort = FreePorts.next();
        try (TestNode seed =
                        TestNode.start(
                                directory.resolve("seed"),
                                options -> encrypted(options).storagePort(seedPort));
                CqlSession session = seed.session(ssl())) {
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
                try (CqlSession other = newcomer.session(ssl())) {
                    for (CqlSession each : List.of(session, other))
                        assertThat(Contents.of(each, SELECT)).isEqualTo(content);
                }
                newcomer.nodetool("decommission", "--force");
            }
            assertThat(Contents.of(session, SELECT)).isEqualTo(content);
        }
    }
}
