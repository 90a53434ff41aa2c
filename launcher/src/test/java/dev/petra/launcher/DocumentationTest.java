// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** The pages of a release, where they are unpacked: no link between them is dead. */
final class DocumentationTest {
    private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();

    private static final Pattern CODE = Pattern.compile("(?ms)^ *```.*?^ *```");
    private static final Pattern HEADING = Pattern.compile("(?m)^#+ (.*)$");
    private static final Pattern LINK = Pattern.compile("\\]\\(([^)\\s]+)\\)");
    private static final Pattern SHIPPED = Pattern.compile("<include>([^<:]+)</include>");

    private final Map<Path, Set<String>> anchors = new HashMap<>();

    @Test
    void noRelativeLinkIsDead() throws IOException {
        List<String> dead = new ArrayList<>();
        int links = 0;
        List<Path> pages = pages();
        assertThat(pages).hasSizeGreaterThan(15);
        for (Path page : pages)
            for (String link : matches(LINK, text(page))) {
                if (link.contains("://") || link.startsWith("mailto:")) continue;
                links++;
                String reason = defect(page, link);
                if (reason != null) dead.add(ROOT.relativize(page) + ": " + link + reason);
            }
        assertThat(links).isGreaterThan(100);
        assertThat(dead).isEmpty();
    }

    @Test
    void whatIsDeadIsSeen() throws IOException {
        Path page = ROOT.resolve("docs/install.md");
        assertThat(defect(page, "operations.md#when-a-node-does-not-start")).isNull();
        assertThat(defect(page, "#by-hand")).isNull();
        assertThat(defect(page, "../README.md")).isNull();
        assertThat(defect(page, "operations.md#migration")).contains("no such heading");
        assertThat(defect(page, "#none")).contains("no such heading");
        assertThat(defect(page, "none.md")).contains("no such file");
        assertThat(defect(page, "../pom.xml")).contains("not in the archive");
    }

    private static List<Path> pages() throws IOException {
        List<Path> pages = new ArrayList<>();
        for (String page : List.of("README.md", "CHANGELOG.md", "CONTRIBUTING.md"))
            pages.add(ROOT.resolve(page));
        try (Stream<Path> docs = Files.walk(ROOT.resolve("docs"))) {
            docs.filter(file -> file.toString().endsWith(".md")).forEach(pages::add);
        }
        return pages;
    }

    /** Null if there is none. */
    private String defect(Path page, String link) throws IOException {
        String[] parts = link.split("#", 2);
        Path to = parts[0].isEmpty() ? page : page.resolveSibling(parts[0]).normalize();
        if (!Files.exists(to)) return ", no such file";
        if (!isShipped(ROOT.relativize(to).toString())) return ", not in the archive";
        return parts.length == 1 || anchors(to).contains(parts[1]) ? null : ", no such heading";
    }

    private static boolean isShipped(String file) throws IOException {
        for (String included :
                matches(SHIPPED, Files.readString(ROOT.resolve("dist/src/archive.xml"))))
            if (included.endsWith("/**")
                    ? (file + "/").startsWith(included.substring(0, included.length() - 2))
                    : file.equals(included)) return true;
        return false;
    }

    /** As GitHub makes them of headings. */
    private Set<String> anchors(Path page) throws IOException {
        Set<String> known = anchors.get(page);
        if (known != null) return known;
        Set<String> all = new HashSet<>();
        for (String heading : matches(HEADING, text(page))) {
            String anchor =
                    heading.replaceAll("\\[([^]]*)]\\([^)]*\\)", "$1")
                            .strip()
                            .toLowerCase(Locale.ROOT)
                            .replaceAll("[^\\p{L}\\p{N}_\\- ]", "")
                            .replace(' ', '-');
            String unique = anchor;
            for (int n = 1; !all.add(unique); n++) unique = anchor + "-" + n;
        }
        anchors.put(page, all);
        return all;
    }

    /** Without blocks of code, which have lines like headings. */
    private static String text(Path page) throws IOException {
        return CODE.matcher(Files.readString(page)).replaceAll("");
    }

    private static List<String> matches(Pattern pattern, String text) {
        return pattern.matcher(text).results().map((MatchResult each) -> each.group(1)).toList();
    }
}
