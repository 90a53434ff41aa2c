// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Splits a script into statements at the semicolons that are outside of strings, quoted names,
 * {@code $$} bodies, comments and batches. Removes comments, because Cassandra's grammar does not
 * accept one at the end of a statement. Keeps line breaks, because Cassandra's errors give lines.
 */
public final class CqlScript {
    private final String text;
    private final List<String> statements = new ArrayList<>();

    /** The current statement; without the white space and comments before it. */
    private final StringBuilder statement = new StringBuilder();

    private int at;

    /** The offset of BEGIN if the current statement is a batch, otherwise -1. */
    private int batchStart = -1;

    /** The word before the current offset, in capitals; empty if a symbol precedes. */
    private String lastWord = "";

    private CqlScript(String text) {
        this.text = text;
    }

    /**
     * Returns the statements in order, without their semicolons and without empty ones.
     *
     * @throws CqlException if a string, quoted name, body, comment or batch is not terminated
     */
    public static List<String> split(String text) {
        CqlScript script = new CqlScript(text);
        script.read();
        return script.statements;
    }

    private void read() {
        while (at < text.length()) {
            char c = text.charAt(at);
            if (c == '\'') {
                copyTo(end("'", "string"));
            } else if (c == '"') {
                copyTo(end("\"", "quoted name"));
            } else if (text.startsWith("$$", at)) {
                copyTo(end("$$", "$$ body"));
            } else if (text.startsWith("--", at) || text.startsWith("//", at)) {
                skipLineComment();
            } else if (text.startsWith("/*", at)) {
                skipBlockComment();
            } else if (c == ';' && batchStart < 0) {
                endStatement();
                at++;
            } else if (Character.isLetter(c)) {
                readWord();
            } else {
                boolean space = Character.isWhitespace(c);
                if (!space) lastWord = "";
                if (space && statement.isEmpty()) at++;
                else copyTo(at + 1);
            }
        }
        if (batchStart >= 0)
            throw new CqlException("batch without APPLY BATCH " + position(batchStart));
        endStatement();
    }

    /** Finds the end of the quoted text that begins here. In it, a doubled quote is one quote. */
    private int end(String quote, String what) {
        int close = text.indexOf(quote, at + quote.length());
        while (close >= 0 && quote.length() == 1 && text.startsWith(quote, close + 1))
            close = text.indexOf(quote, close + 2);
        if (close < 0) throw new CqlException("unterminated " + what + " " + position(at));
        lastWord = "";
        return close + quote.length();
    }

    private void skipLineComment() {
        while (at < text.length() && text.charAt(at) != '\n' && text.charAt(at) != '\r') at++;
    }

    private void skipBlockComment() {
        int close = text.indexOf("*/", at + 2);
        if (close < 0) throw new CqlException("unterminated comment " + position(at));
        if (!statement.isEmpty()) {
            statement.append(' ');
            text.substring(at, close)
                    .chars()
                    .filter(c -> c == '\n')
                    .forEach(c -> statement.append('\n'));
        }
        at = close + 2;
    }

    private void readWord() {
        int start = at;
        boolean first = statement.isEmpty();
        int end = at;
        while (end < text.length() && isWordPart(text.charAt(end))) end++;
        copyTo(end);
        String word = text.substring(start, end).toUpperCase(Locale.ROOT);
        if (first && word.equals("BEGIN")) {
            batchStart = start;
        } else if (batchStart >= 0 && word.equals("BATCH") && lastWord.equals("APPLY")) {
            batchStart = -1;
        }
        lastWord = word;
    }

    private void copyTo(int end) {
        statement.append(text, at, end);
        at = end;
    }

    private void endStatement() {
        String ended = statement.toString().stripTrailing();
        if (!ended.isEmpty()) statements.add(ended);
        statement.setLength(0);
        lastWord = "";
    }

    private static boolean isWordPart(char c) {
        return Character.isLetterOrDigit(c) || c == '_';
    }

    private String position(int offset) {
        int line = 1;
        int lineStart = 0;
        for (int i = 0; i < offset; i++) {
            if (text.charAt(i) == '\n') {
                line++;
                lineStart = i + 1;
            }
        }
        return "that starts at line " + line + ", column " + (offset - lineStart + 1);
    }
}
