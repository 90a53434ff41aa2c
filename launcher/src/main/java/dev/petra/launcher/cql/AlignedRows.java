// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import com.datastax.oss.driver.api.core.cql.Row;
import java.io.PrintWriter;
import java.util.List;
import java.util.function.BiFunction;

/** Writes rows as a table. A column becomes wider when a later page has wider values. */
public final class AlignedRows implements RowWriter {
    private final PrintWriter out;
    private List<String> columns = List.of();
    private int[] widths = {};
    private long count;
    private boolean headed;

    /** Makes a writer that does not flush by itself. */
    public AlignedRows(PrintWriter out) {
        this.out = out;
    }

    @Override
    public void begin(List<String> columns) {
        this.columns = columns;
        widths = columns.stream().mapToInt(AlignedRows::width).toArray();
    }

    @Override
    public void page(List<Row> rows) {
        cells(
                rows.stream()
                        .map(row -> CqlText.values(row).stream().map(CqlText::of).toList())
                        .toList());
    }

    /** Writes rows whose values are text already. */
    void cells(List<List<String>> rows) {
        for (List<String> row : rows) {
            for (int i = 0; i < widths.length; i++)
                widths[i] = Math.max(widths[i], width(row.get(i)));
        }
        head();
        rows.forEach(row -> line(row, (text, width) -> padding(text, width) + text));
        count += rows.size();
        RowWriter.flush(out);
    }

    @Override
    public void end() {
        head();
        out.println();
        out.println("(" + count + " rows)");
        RowWriter.flush(out);
    }

    private void head() {
        if (headed) return;
        headed = true;
        out.println();
        line(columns, (text, width) -> text + padding(text, width));
        StringBuilder rule = new StringBuilder();
        for (int width : widths)
            rule.append(rule.isEmpty() ? "" : "+").append("-".repeat(width + 2));
        out.println(rule);
    }

    private void line(List<String> cells, BiFunction<String, Integer, String> align) {
        StringBuilder line = new StringBuilder();
        for (int i = 0; i < widths.length; i++)
            line.append(i == 0 ? " " : " | ").append(align.apply(cells.get(i), widths[i]));
        out.println(line.toString().stripTrailing());
    }

    private static String padding(String text, int width) {
        return " ".repeat(width - width(text));
    }

    private static int width(String text) {
        return text.codePointCount(0, text.length());
    }
}
