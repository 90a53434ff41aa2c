// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/**
 * What Grafana wants of a dashboard, and would pass over without a word. {@code ExporterIT} looks
 * for its series on a node.
 */
final class DashboardTest {
    private static final Map<String, Object> DASHBOARD =
            Yaml.read(Path.of("..", "docs", "grafana", "petra.json"));

    private static final int COLUMNS = 24;

    /** As Grafana names them; any other is shown as a text behind the number. */
    private static final Set<String> UNITS =
            Set.of("bytes", "percentunit", "ops", "Bps", "reqps", "µs", "short");

    private static final Pattern VARIABLE = Pattern.compile("\\$\\{?(\\w+)");
    private static final Pattern LABEL = Pattern.compile("\\{\\{(\\w+)}}");
    private static final Pattern LABEL_VALUES =
            Pattern.compile("label_values\\(\\w+(\\{[^}]*})?, \\w+\\)");

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Map<String, Object> of, String key) {
        assertThat(of).containsKey(key);
        return (Map<String, Object>) of.get(key);
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> list(Map<String, Object> of, String key) {
        assertThat(of).containsKey(key);
        return (List<Map<String, Object>>) of.get(key);
    }

    private static int number(Map<String, Object> of, String key) {
        assertThat(of).containsKey(key);
        return (Integer) of.get(key);
    }

    private static List<Map<String, Object>> panels() {
        List<Map<String, Object>> panels = list(DASHBOARD, "panels");
        assertThat(panels).hasSizeGreaterThan(25);
        return panels;
    }

    private static void hasOnly(Set<String> known, Pattern names, String text) {
        Matcher found = names.matcher(text);
        while (found.find()) assertThat(known).as(text).contains(found.group(1));
    }

    /** The names of the variables, each of which is made of those before it. */
    private static Set<String> variables() {
        Set<String> known = new HashSet<>();
        for (Map<String, Object> variable : list(map(DASHBOARD, "templating"), "list")) {
            String name = String.valueOf(variable.get("name"));
            if ("query".equals(variable.get("type"))) {
                assertThat(map(variable, "datasource")).containsEntry("uid", "${source}");
                Map<String, Object> query = map(variable, "query");
                String text = String.valueOf(query.get("query"));
                assertThat(text).matches(LABEL_VALUES).isEqualTo(variable.get("definition"));
                hasOnly(known, VARIABLE, text);
                // As Grafana writes it: all are chosen at first, and are in order.
                assertThat(query).containsKey("refId").containsEntry("qryType", 1);
                assertThat(map(variable, "current"))
                        .isEqualTo(Map.of("text", List.of("All"), "value", List.of("$__all")));
                assertThat(variable)
                        .containsEntry("includeAll", true)
                        .containsEntry("multi", true)
                        .containsEntry("sort", 1);
            } else {
                assertThat(variable)
                        .containsEntry("type", "datasource")
                        .containsEntry("query", "prometheus");
            }
            assertThat(known.add(name)).as(name).isTrue();
        }
        return known;
    }

    @Test
    void itsVariablesAreChosenFromTheSeries() {
        assertThat(variables()).containsExactlyInAnyOrder("source", "node", "keyspace", "table");
    }

    @Test
    void panelsHaveTheirPlaces() {
        assertThat(DASHBOARD).containsKeys("title", "uid", "schemaVersion", "time");
        Set<Object> ids = new HashSet<>();
        Set<String> taken = new HashSet<>();
        for (Map<String, Object> panel : panels()) {
            assertThat(ids.add(panel.get("id"))).as("%s", panel.get("id")).isTrue();
            assertThat(String.valueOf(panel.get("title"))).isNotBlank();
            Map<String, Object> place = map(panel, "gridPos");
            int left = number(place, "x");
            int top = number(place, "y");
            assertThat(left + number(place, "w")).isLessThanOrEqualTo(COLUMNS);
            for (int x = left; x < left + number(place, "w"); x++)
                for (int y = top; y < top + number(place, "h"); y++)
                    assertThat(taken.add(x + "," + y)).as("%s", panel.get("title")).isTrue();
        }
    }

    @Test
    void panelsAskWhatTheyCanShow() {
        Set<String> variables = variables();
        for (Map<String, Object> panel : panels()) {
            if ("row".equals(panel.get("type"))) {
                assertThat(panel).containsEntry("collapsed", false).containsKey("panels");
                continue;
            }
            String title = String.valueOf(panel.get("title"));
            assertThat(panel).as(title).containsEntry("type", "timeseries");
            assertThat(String.valueOf(panel.get("description"))).as(title).isNotBlank();
            assertThat(map(panel, "datasource"))
                    .as(title)
                    .isEqualTo(Map.of("type", "prometheus", "uid", "${source}"));
            assertThat(map(map(panel, "fieldConfig"), "defaults").get("unit"))
                    .as(title)
                    .isIn(UNITS);
            assertThat(map(map(panel, "options"), "legend"))
                    .as(title)
                    .containsEntry("showLegend", true);
            Set<Object> refIds = new HashSet<>();
            List<Map<String, Object>> targets = list(panel, "targets");
            assertThat(targets).as(title).isNotEmpty();
            for (Map<String, Object> target : targets) {
                assertThat(refIds.add(target.get("refId"))).as(title).isTrue();
                String expression = String.valueOf(target.get("expr"));
                hasOnly(variables, VARIABLE, expression);
                assertThat(isBalanced(expression)).as(expression).isTrue();
                String legend = String.valueOf(target.get("legendFormat"));
                assertThat(legend).as(title).isNotBlank();
                hasOnly(Set.of("instance", "keyspace", "scope"), LABEL, legend);
            }
        }
    }

    private static boolean isBalanced(String expression) {
        for (String pair : List.of("()", "{}", "[]"))
            if (expression.chars().filter(c -> c == pair.charAt(0)).count()
                    != expression.chars().filter(c -> c == pair.charAt(1)).count()) return false;
        return expression.chars().filter(c -> c == '"').count() % 2 == 0;
    }
}
