// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * What the text of a statement does, and to which tables, as far as its first words and names tell.
 *
 * @param kind of statement
 * @param tables one, or those of a batch; empty where none is named
 * @param isVolatile whether it calls a function that answers differently each time, as now()
 * @param isConditional whether it writes only under a condition: IF
 */
record CqlText(Kind kind, List<Name> tables, boolean isVolatile, boolean isConditional) {
    /**
     * A table, as it is written there.
     *
     * @param keyspace null if there is none
     */
    record Name(@Nullable String keyspace, String table) {}

    /** Kinds of statements. */
    enum Kind {
        READ,
        WRITE,
        OTHER
    }

    /**
     * Comments, strings, and names in quotes, each of which may look like the others inside. One
     * with a quote in it, which is doubled there, is taken for two. No group is repeated: Java
     * would need stack for each character of a long string.
     */
    private static final Pattern QUOTED =
            Pattern.compile(
                    "--[^\\n]*|//[^\\n]*|/\\*.*?\\*/|'[^']*'|\\$\\$.*?\\$\\$" + "|\"[^\"]*\"",
                    Pattern.DOTALL);

    private static final String NAME = "(\"(?:[^\"]++|\"\")*+\"|\\w++)";

    /** Its first group is there unless it is only a name in quotes, which may look like one. */
    private static final Pattern TABLE =
            Pattern.compile(
                    "\"(?:[^\"]++|\"\")*+\"|\\b(?:FROM|INTO|UPDATE|TRUNCATE(?:\\s+(?:TABLE|COLUMNFAMILY)\\b)?)\\s+"
                            + NAME
                            + "(?:\\s*\\.\\s*"
                            + NAME
                            + ")?",
                    Pattern.CASE_INSENSITIVE);

    private static final Pattern VOLATILE =
            Pattern.compile(
                    "\\b(?:now|uuid|current_?(?:timestamp|date|time|timeuuid))\\s*\\(",
                    Pattern.CASE_INSENSITIVE);

    /** Its first group is there unless it is only a name in quotes. */
    private static final Pattern CONDITION =
            Pattern.compile("\"(?:[^\"]++|\"\")*+\"|\\b(IF)\\b", Pattern.CASE_INSENSITIVE);

    static CqlText of(String cql) {
        // A name in quotes stays, since it may be the table's.
        String bare = QUOTED.matcher(cql).replaceAll(CqlText::withoutText).strip();
        String first = firstWord(bare);
        Kind kind =
                switch (first) {
                    case "SELECT" -> Kind.READ;
                    case "INSERT", "UPDATE", "DELETE", "BEGIN", "TRUNCATE" -> Kind.WRITE;
                    default -> Kind.OTHER;
                };
        List<Name> tables =
                TABLE.matcher(bare)
                        .results()
                        .filter(found -> found.group(1) != null)
                        .limit(first.equals("BEGIN") ? Long.MAX_VALUE : 1)
                        .map(CqlText::named)
                        .toList();
        boolean isConditional =
                kind == Kind.WRITE
                        && CONDITION
                                .matcher(bare)
                                .results()
                                .anyMatch(found -> found.group(1) != null);
        return new CqlText(kind, tables, VOLATILE.matcher(bare).find(), isConditional);
    }

    private static Name named(MatchResult found) {
        return found.group(2) == null
                ? new Name(null, name(found.group(1)))
                : new Name(name(found.group(1)), name(found.group(2)));
    }

    private static String withoutText(MatchResult quoted) {
        String text = quoted.group();
        return switch (text.charAt(0)) {
            case '"' -> Matcher.quoteReplacement(text);
            case '\'', '$' -> "''";
            default -> " ";
        };
    }

    /** Whether there are markers in a statement, in place of values. */
    static boolean needsValues(String cql) {
        String bare =
                QUOTED.matcher(cql)
                        .replaceAll(
                                quoted -> "-/".indexOf(quoted.group().charAt(0)) < 0 ? "''" : " ");
        int braces = 0;
        char before = ' ';
        for (int i = 0; i < bare.length(); i++) {
            char c = bare.charAt(i);
            if (c == '?') return true;
            if (c == '{') braces++;
            if (c == '}') braces--;
            // Between a key and its value it is no marker, nor in a duration.
            if (c == ':'
                    && (braces == 0 ? !Character.isDigit(before) : "{:,[(".indexOf(before) >= 0))
                return true;
            if (!Character.isWhitespace(c)) before = c;
        }
        return false;
    }

    private static String firstWord(String bare) {
        int end = 0;
        while (end < bare.length() && Character.isLetter(bare.charAt(end))) end++;
        return bare.substring(0, end).toUpperCase(Locale.ROOT);
    }

    /** A name as Cassandra has it. */
    static String name(String written) {
        return written.startsWith("\"")
                ? written.substring(1, written.length() - 1).replace("\"\"", "\"")
                : written.toLowerCase(Locale.ROOT);
    }

    /** The statements of a text, which semicolons end, without comments. */
    static List<String> statements(String cql) {
        List<String> statements = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        Matcher quoted = QUOTED.matcher(cql);
        int from = 0;
        while (quoted.find()) {
            split(cql.substring(from, quoted.start()), statement, statements);
            if ("'\"$".indexOf(quoted.group().charAt(0)) >= 0) statement.append(quoted.group());
            from = quoted.end();
        }
        split(cql.substring(from) + ";", statement, statements);
        return statements;
    }

    private static void split(String text, StringBuilder statement, List<String> statements) {
        int from = 0;
        for (int end = text.indexOf(';'); end >= 0; end = text.indexOf(';', from)) {
            String whole = statement.append(text, from, end).toString().strip();
            if (!whole.isEmpty()) statements.add(whole);
            statement.setLength(0);
            from = end + 1;
        }
        statement.append(text, from, text.length());
    }
}
