// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/**
 * The file {@code results.json}, whose schema is these records: a change of it needs another
 * number.
 *
 * @param schema {@value #SCHEMA}
 * @param started as ISO 8601
 * @param machine what it was measured on
 * @param settings what was asked for
 * @param figures what was measured
 */
record Results(
        int schema,
        String started,
        Map<String, String> machine,
        Map<String, String> settings,
        List<Figure> figures) {
    static final int SCHEMA = 2;

    private static final ObjectMapper JSON =
            new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

    Results(
            String started,
            Map<String, String> machine,
            Map<String, String> settings,
            List<Figure> figures) {
        this(SCHEMA, started, machine, settings, figures);
    }

    void write(Path file) throws IOException {
        JSON.writeValue(file.toFile(), this);
    }

    static Results read(Path file) throws IOException {
        Results results = JSON.readValue(file.toFile(), Results.class);
        if (results.schema != SCHEMA)
            throw new IOException(
                    file + " has schema " + results.schema + "; this version reads " + SCHEMA);
        return results;
    }
}
