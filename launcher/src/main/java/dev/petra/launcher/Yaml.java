// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.snakeyaml.engine.v2.api.Dump;
import org.snakeyaml.engine.v2.api.DumpSettings;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.common.FlowStyle;
import org.snakeyaml.engine.v2.common.ScalarStyle;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.Tag;
import org.snakeyaml.engine.v2.representer.StandardRepresenter;

/** Reads, writes, merges and compares nested settings in YAML. */
final class Yaml {
    /** A setting whose value in a file is not the one that is asked for. */
    record Difference(String path, String found, String asked) {}

    private static final Pattern PLAIN =
            Pattern.compile("[A-Za-z/][A-Za-z0-9_./-]*|[0-9]+(d|h|m|s|ms|KiB|MiB|GiB)");

    /** Unquoted words that YAML 1.1, which Cassandra reads, takes for booleans or null. */
    private static final Set<String> RESERVED =
            Set.of("y", "n", "yes", "no", "on", "off", "true", "false", "null");

    private Yaml() {}

    /** Reads a file of settings; an empty file has none. */
    static Map<String, Object> read(Path file) {
        try {
            LoadSettings settings = LoadSettings.builder().setLabel(file.toString()).build();
            Object loaded = new Load(settings).loadFromString(Files.readString(file));
            return loaded == null ? Map.of() : map(loaded);
        } catch (YamlEngineException | ClassCastException e) {
            throw new NodeException(file + " is no YAML map: " + e.getMessage(), e);
        } catch (IOException e) {
            throw new NodeException("cannot read " + file + ": " + e, e);
        }
    }

    /** Writes settings in block style. */
    static String dump(Map<String, Object> settings) {
        DumpSettings style =
                DumpSettings.builder()
                        .setDefaultFlowStyle(FlowStyle.BLOCK)
                        .setIndicatorIndent(2)
                        .setIndentWithIndicator(true)
                        .build();
        return new Dump(style, new Quoting(style)).dumpToString(settings);
    }

    /** Adds settings to others: maps are merged, everything else is replaced by {@code above}. */
    static Map<String, Object> merge(Map<String, Object> below, Map<String, Object> above) {
        Map<String, Object> merged = new LinkedHashMap<>(below);
        above.forEach(
                (key, value) -> {
                    if (merged.get(key) instanceof Map<?, ?> old && value instanceof Map) {
                        merged.put(key, merge(map(old), map(value)));
                    } else {
                        merged.put(key, value);
                    }
                });
        return merged;
    }

    /** Finds the settings that a file lacks or has with another value than is asked for. */
    static List<Difference> differences(Map<String, Object> file, Map<String, Object> asked) {
        List<Difference> found = new ArrayList<>();
        compare("", file, asked, found);
        return found;
    }

    private static void compare(
            String prefix,
            Map<String, Object> file,
            Map<String, Object> asked,
            List<Difference> found) {
        asked.forEach(
                (key, value) -> {
                    Object has = file.get(key);
                    if (has instanceof Map && value instanceof Map) {
                        compare(prefix + key + ".", map(has), map(value), found);
                    } else if (has == null) {
                        found.add(new Difference(prefix + key, "nothing", value.toString()));
                    } else if (!has.toString().equals(value.toString())) {
                        found.add(new Difference(prefix + key, has.toString(), value.toString()));
                    }
                });
    }

    @SuppressWarnings("unchecked") // A key that is not a string fails where it is used.
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    /**
     * Quotes every string that is not a plain word. The library writes YAML 1.2, where {@code off}
     * and {@code 1:30} are strings; Cassandra's parser would read a boolean and a number.
     */
    private static final class Quoting extends StandardRepresenter {
        Quoting(DumpSettings settings) {
            super(settings);
            representers.put(
                    String.class,
                    value -> {
                        String text = value.toString();
                        boolean plain =
                                PLAIN.matcher(text).matches()
                                        && !RESERVED.contains(text.toLowerCase(Locale.ROOT));
                        return representScalar(
                                Tag.STR,
                                text,
                                plain ? ScalarStyle.PLAIN : ScalarStyle.DOUBLE_QUOTED);
                    });
        }
    }
}
