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
 * What the text of a statement does, and to which table, as far as its first words and names tell.
 *
 * @param kind of statement
 * @param keyspace as it is written there; null if there is none
 * @param table null where none is named
 * @param isVolatile whether it calls a function that answers differently each time, as now()
 */
record CqlText(Kind kind, @Nullable String keyspace, @Nullable String table, boolean isVolatile) {
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

    static CqlText of(String cql) {
        // A name in quotes stays, since it may be the table's.
        String bare = QUOTED.matcher(cql).replaceAll(CqlText::withoutText).strip();
        Kind kind =
                switch (firstWord(bare)) {
                    case "SELECT" -> Kind.READ;
                    case "INSERT", "UPDATE", "DELETE", "BEGIN", "TRUNCATE" -> Kind.WRITE;
                    default -> Kind.OTHER;
                };
        Matcher table = TABLE.matcher(bare);
        boolean isVolatile = VOLATILE.matcher(bare).find();
        boolean found = table.find();
        while (found && table.group(1) == null) found = table.find();
        if (!found) return new CqlText(kind, null, null, isVolatile);
        return table.group(2) == null
                ? new CqlText(kind, null, name(table.group(1)), isVolatile)
                : new CqlText(kind, name(table.group(1)), name(table.group(2)), isVolatile);
    }

    private static String withoutText(MatchResult quoted) {
        String text = quoted.group();
        return switch (text.charAt(0)) {
            case '"' -> Matcher.quoteReplacement(text);
            case '\'', '$' -> "''";
            default -> " ";
        };
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
