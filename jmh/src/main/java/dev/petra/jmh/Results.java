// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * The file {@code results.json}, whose schema is these records: a change of it needs another
 * number.
 *
 * @param schema {@value #SCHEMA}
 * @param started as ISO 8601
 * @param incomplete what is missing of what was asked for, and why; empty if nothing is
 * @param machine what it was measured on
 * @param settings what was asked for
 * @param figures what was measured
 */
record Results(
        int schema,
        String started,
        String incomplete,
        Map<String, String> machine,
        Map<String, String> settings,
        List<Figure> figures) {
    static final int SCHEMA = 3;

    private static final ObjectMapper JSON =
            new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

    Results(
            String started,
            String incomplete,
            Map<String, String> machine,
            Map<String, String> settings,
            List<Figure> figures) {
        this(SCHEMA, started, incomplete, machine, settings, figures);
    }

    /** Writes the file, which is whole at any time: an earlier one is replaced at once. */
    void write(Path file) throws IOException {
        Path whole = file.resolveSibling(file.getFileName() + ".new");
        JSON.writeValue(whole.toFile(), this);
        Files.move(whole, file, ATOMIC_MOVE);
    }

    /** Only of results of all rounds of all engines there are ratios. */
    boolean isComplete() {
        return incomplete.isEmpty();
    }

    static Results read(Path file) throws IOException {
        Results results = JSON.readValue(file.toFile(), Results.class);
        if (results.schema != SCHEMA)
            throw new IOException(
                    file + " has schema " + results.schema + "; this version reads " + SCHEMA);
        return results;
    }
}
