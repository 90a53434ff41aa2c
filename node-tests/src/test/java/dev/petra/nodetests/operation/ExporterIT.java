// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.operation;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.CqlSession;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.petra.launcher.FreePorts;
import dev.petra.nodetests.fixture.ShadowTable;
import dev.petra.nodetests.fixture.TestNode;
import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.yaml.snakeyaml.Yaml;

/**
 * The dashboard and the alerts ask for nothing that the Prometheus exporter does not show of a real
 * node.
 */
class ExporterIT {
    private static final Duration PATIENCE = Duration.ofMinutes(2);
    private static final Path DASHBOARD = Path.of("..", "docs", "grafana").toAbsolutePath();
    private static final Pattern SERIES = Pattern.compile("([a-zA-Z_]\\w*)\\{([^}]*)}");
    private static final Pattern EXACTLY = Pattern.compile("(\\w+)=\"([^\"]*)\"");

    private static final Map<String, Object> SHADOW =
            Map.of(
                    "memtable",
                    Map.of(
                            "configurations",
                            Map.of(
                                    "shadow",
                                    ShadowTable.configuration(
                                            Map.of(
                                                    "engine", "rocks", "mode", "shadow", "memory",
                                                    "128MiB")))));

    @TempDir Path directory;

    @Test
    void theSeriesOfDashboardAndAlertsAreThere() throws Exception {
        int port = FreePorts.next();
        Path agent =
                Path.of(
                        Class.forName("io.prometheus.jmx.JavaAgent")
                                .getProtectionDomain()
                                .getCodeSource()
                                .getLocation()
                                .toURI());
        String option =
                "-javaagent:"
                        + agent
                        + "=127.0.0.1:"
                        + port
                        + ":"
                        + DASHBOARD.resolve("jmx-exporter.yaml");
        List<String> shown;
        try (TestNode node =
                        TestNode.start(
                                directory, config -> config.jvmOptions(option).yaml(SHADOW));
                CqlSession session = node.plainSession()) {
            TestNode.createKeyspace(session, "ks", 1);
            session.execute("CREATE TABLE ks.t (p int PRIMARY KEY) WITH memtable = 'rocks'");
            session.execute("INSERT INTO ks.t (p) VALUES (1)");
            // Their metrics are there once there was one.
            session.execute("CREATE TABLE ks.s (p int PRIMARY KEY) WITH memtable = 'shadow'");
            ShadowTable.await(session, "s", PATIENCE, row -> row.getBoolean("caught_up"));
            node.nodetool("flush", "ks", "t");
            assertThat(session.execute("SELECT * FROM ks.t WHERE p = 1").all()).hasSize(1);
            shown =
                    HttpClient.newHttpClient()
                            .send(
                                    HttpRequest.newBuilder(
                                                    URI.create(
                                                            "http://127.0.0.1:"
                                                                    + port
                                                                    + "/metrics"))
                                            .build(),
                                    HttpResponse.BodyHandlers.ofString())
                            .body()
                            .lines()
                            .toList();
        }
        List<String> missing = new ArrayList<>();
        int asked = 0;
        for (String expression : expressions()) {
            Matcher series = SERIES.matcher(expression);
            // Series of other names are not matched with each other otherwise.
            assertThat(expression.split("ignoring\\(name\\)", -1))
                    .describedAs(expression)
                    .hasSize((int) SERIES.matcher(expression).results().count());
            while (series.find()) {
                asked++;
                if (!isShown(series.group(1), series.group(2), shown)) missing.add(series.group());
            }
        }
        assertThat(missing).isEmpty();
        assertThat(asked).isGreaterThan(42);
        // The engine's own among Cassandra's names, with values.
        assertThat(value(shown, Map.of("keyspace", "ks", "scope", "t", "name", "LiveSSTableCount")))
                .isEqualTo(1);
        assertThat(value(shown, Map.of("scope", "rocks", "name", "WrittenBytes"))).isPositive();
    }

    /** Of the dashboard's panels, and of the alerts. */
    private static List<String> expressions() throws IOException {
        List<String> all = new ArrayList<>();
        for (JsonNode panel :
                new ObjectMapper().readTree(DASHBOARD.resolve("petra.json").toFile()).get("panels"))
            for (JsonNode target : panel.path("targets")) all.add(target.get("expr").asText());
        try (InputStream alerts = Files.newInputStream(DASHBOARD.resolve("alerts.yaml"))) {
            Map<String, List<Map<String, List<Map<String, Object>>>>> rules =
                    new Yaml().load(alerts);
            for (var group : rules.get("groups"))
                for (Map<String, Object> rule : group.get("rules"))
                    all.add((String) rule.get("expr"));
        }
        return all;
    }

    private static boolean isShown(String name, String labels, List<String> shown) {
        Matcher exactly = EXACTLY.matcher(labels);
        List<String> wanted = new ArrayList<>();
        while (exactly.find()) wanted.add(exactly.group());
        return shown.stream()
                .anyMatch(
                        line ->
                                line.startsWith(name + "{")
                                        && wanted.stream().allMatch(line::contains));
    }

    private static double value(List<String> shown, Map<String, String> labels) {
        String line =
                shown.stream()
                        .filter(
                                candidate ->
                                        labels.entrySet().stream()
                                                .allMatch(
                                                        label ->
                                                                candidate.contains(
                                                                        label.getKey()
                                                                                + "=\""
                                                                                + label.getValue()
                                                                                + "\"")))
                        .findFirst()
                        .orElseThrow();
        return Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1));
    }
}
