// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.common.FlowStyle;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;

/**
 * The memtable configuration {@code rocks} in {@code cassandra.yaml}. The file is edited as text,
 * so that comments and all else stay. Before that counts, the new text is read as YAML: the
 * settings must be those of the old one and {@code rocks}, and nothing else.
 */
final class MemtableYaml {
    private static final String MEMTABLE = "memtable";
    private static final String CONFIGURATIONS = "configurations";
    private static final String ROCKS = "rocks";
    private static final String CLASS = "class_name";
    private static final String PETRA = "dev.petra.cassandra.PetraMemtable";
    private static final String PARAMETERS = "parameters";
    private static final String MEMORY = "memory";

    private MemtableYaml() {}

    /**
     * The file with the configuration.
     *
     * @param memory a size, if the engine is not to choose
     */
    static String install(TextFile yaml, Optional<String> memory) {
        Optional<MarkedBlock> block = MarkedBlock.find(yaml.path(), yaml.text());
        if (block.isPresent()) {
            checkOwn(yaml, block.get(), memory);
            return yaml.text();
        }
        Map<String, Object> before = settings(yaml.path(), yaml.text(), memory);
        checkNotByHand(yaml.path(), before);
        List<String> lines = lines(memory);
        String after =
                place(yaml, memory)
                        .map(
                                place ->
                                        MarkedBlock.insert(
                                                yaml.text(), place.line(), place.indent(), lines))
                        .orElseGet(
                                () -> {
                                    List<String> whole = new ArrayList<>();
                                    whole.add(MEMTABLE + ":");
                                    whole.add("  " + CONFIGURATIONS + ":");
                                    for (String line : lines) whole.add("    " + line);
                                    return MarkedBlock.append(yaml.text(), whole);
                                });
        Map<String, Object> expected = new LinkedHashMap<>(before);
        Map<String, Object> configurations = new LinkedHashMap<>(configurations(before));
        configurations.put(ROCKS, configuration(memory));
        Map<String, Object> memtable = new LinkedHashMap<>(map(before.get(MEMTABLE)));
        memtable.put(CONFIGURATIONS, configurations);
        expected.put(MEMTABLE, memtable);
        if (!settings(yaml.path(), after, memory).equals(expected))
            throw unsafe(yaml.path(), "its form is not one that petra edits", memory);
        return after;
    }

    /**
     * The file without it.
     *
     * @throws InstallException if another configuration would lack it, or more would go than it
     */
    static String uninstall(TextFile yaml) {
        Optional<MarkedBlock> block = MarkedBlock.find(yaml.path(), yaml.text());
        if (block.isEmpty()) return yaml.text();
        String text = block.get().removedFrom(yaml.text());
        Map<String, Object> before;
        Map<String, Object> after;
        try {
            before = parse(yaml.text());
            after = parse(text);
        } catch (YamlEngineException | CharacterCodingException e) {
            throw new InstallException(
                    yaml.path()
                            + " is no YAML, or would be none without the lines between Petra's"
                            + " markers: correct it by hand. "
                            + e.getMessage(),
                    e);
        }
        Map<String, Object> expected = new LinkedHashMap<>(configurations(before));
        if (expected.remove(ROCKS) == null
                || !expected.equals(configurations(after))
                || !without(before).equals(without(after)))
            throw new InstallException(
                    yaml.path()
                            + " has other settings than the configuration '"
                            + ROCKS
                            + "' between Petra's markers: move them out of the markers");
        configurations(after)
                .forEach(
                        (name, configuration) -> {
                            if (isPetra(configuration)
                                    || ROCKS.equals(map(configuration).get("inherits")))
                                throw new InstallException(
                                        yaml.path()
                                                + " has the memtable configuration '"
                                                + name
                                                + "', which needs Petra as well: remove it, once no"
                                                + " table uses it");
                        });
        return text;
    }

    /** Settings of the file. */
    static Map<String, Object> settings(TextFile yaml) {
        try {
            return parse(yaml.text());
        } catch (YamlEngineException | CharacterCodingException e) {
            throw new InstallException(
                    yaml.path() + " is no YAML map in UTF-8: " + e.getMessage(), e);
        }
    }

    private static Map<String, Object> settings(Path file, String text, Optional<String> memory) {
        try {
            return parse(text);
        } catch (YamlEngineException | CharacterCodingException e) {
            throw unsafe(file, String.valueOf(e.getMessage()), memory);
        }
    }

    private static Map<String, Object> parse(String text) throws CharacterCodingException {
        LoadSettings settings = LoadSettings.builder().setLabel("cassandra.yaml").build();
        Object loaded = new Load(settings).loadFromString(utf8(text));
        if (!(loaded instanceof Map)) throw new YamlEngineException("it has no settings");
        return map(loaded);
    }

    private static String utf8(String text) throws CharacterCodingException {
        return StandardCharsets.UTF_8
                .newDecoder()
                .decode(ByteBuffer.wrap(text.getBytes(StandardCharsets.ISO_8859_1)))
                .toString();
    }

    private static void checkOwn(TextFile yaml, MarkedBlock block, Optional<String> memory) {
        Map<String, Object> all = settings(yaml);
        Object own = configurations(all).get(ROCKS);
        String without = block.removedFrom(yaml.text());
        if (!isPetra(own)
                || configurations(settings(new TextFile(yaml.path(), without))).containsKey(ROCKS))
            throw new InstallException(
                    yaml.path()
                            + " has lines between Petra's markers that are not the configuration '"
                            + ROCKS
                            + "': remove these lines and the markers by hand");
        Object has = map(map(own).get(PARAMETERS)).get(MEMORY);
        if (memory.isPresent() && !memory.get().equals(String.valueOf(has)))
            throw new InstallException(
                    yaml.path()
                            + " has "
                            + (has == null ? "no memory" : "memory: " + has)
                            + " for '"
                            + ROCKS
                            + "': change it there, or leave out --memory");
    }

    private static void checkNotByHand(Path file, Map<String, Object> before) {
        configurations(before)
                .forEach(
                        (name, configuration) -> {
                            if (name.equals(ROCKS) || isPetra(configuration))
                                throw new InstallException(
                                        file
                                                + " has the memtable configuration '"
                                                + name
                                                + "', written by hand: go on by hand, or put the"
                                                + " lines '# BEGIN petra' and '# END petra' around"
                                                + " it if it is called '"
                                                + ROCKS
                                                + "'");
                        });
    }

    /** Before which line of the configurations that are there; none if there are none. */
    private static Optional<Place> place(TextFile yaml, Optional<String> memory) {
        Node root;
        try {
            root =
                    new Compose(LoadSettings.builder().build())
                            .composeString(utf8(yaml.text()))
                            .orElseThrow();
        } catch (CharacterCodingException e) {
            throw unsafe(yaml.path(), "it is not in UTF-8", memory);
        }
        Node memtable = value(root, MEMTABLE);
        if (memtable == null) return Optional.empty();
        Node configurations = value(memtable, CONFIGURATIONS);
        if (!(configurations instanceof MappingNode mapping)
                || mapping.getFlowStyle() != FlowStyle.BLOCK
                || mapping.getValue().isEmpty())
            throw unsafe(
                    yaml.path(),
                    "its settings of '" + MEMTABLE + "' are in a form that petra does not edit",
                    memory);
        Mark first = mapping.getValue().get(0).getKeyNode().getStartMark().orElseThrow();
        int start = MarkedBlock.startOfLine(yaml.text(), first.getLine());
        String indent =
                yaml.text()
                        .substring(
                                start, Math.min(start + first.getColumn(), yaml.text().length()));
        if (!indent.isBlank())
            throw unsafe(
                    yaml.path(), "its first memtable configuration does not start a line", memory);
        return Optional.of(new Place(first.getLine(), indent));
    }

    private record Place(int line, String indent) {}

    private static @Nullable Node value(@Nullable Node in, String key) {
        if (!(in instanceof MappingNode mapping)) return null;
        for (NodeTuple entry : mapping.getValue())
            if (entry.getKeyNode() instanceof ScalarNode name && name.getValue().equals(key))
                return entry.getValueNode();
        return null;
    }

    private static List<String> lines(Optional<String> memory) {
        List<String> lines = new ArrayList<>();
        lines.add(ROCKS + ":");
        lines.add("  " + CLASS + ": " + PETRA);
        lines.add("  " + PARAMETERS + ":");
        lines.add("    engine: rocks");
        memory.ifPresent(size -> lines.add("    " + MEMORY + ": " + size));
        return lines;
    }

    private static Map<String, Object> configuration(Optional<String> memory) {
        Map<String, Object> parameters = new LinkedHashMap<>();
        parameters.put("engine", "rocks");
        memory.ifPresent(size -> parameters.put(MEMORY, size));
        return Map.of(CLASS, PETRA, PARAMETERS, parameters);
    }

    private static InstallException unsafe(Path file, String why, Optional<String> memory) {
        StringBuilder lines = new StringBuilder();
        lines.append(MEMTABLE).append(":\n  ").append(CONFIGURATIONS).append(":\n");
        for (String line : lines(memory)) lines.append("    ").append(line).append('\n');
        return new InstallException(
                file
                        + " cannot be edited safely: "
                        + why
                        + ". Mend that, or add these settings by hand, inside of the section"
                        + " 'memtable' if there is one, between the lines '# BEGIN petra' and '#"
                        + " END petra', and run the command again:\n"
                        + lines.toString().stripTrailing());
    }

    private static boolean isPetra(@Nullable Object configuration) {
        return PETRA.equals(map(configuration).get(CLASS));
    }

    private static Map<String, Object> configurations(Map<String, Object> settings) {
        return map(map(settings.get(MEMTABLE)).get(CONFIGURATIONS));
    }

    private static Map<String, Object> without(Map<String, Object> settings) {
        Map<String, Object> others = new LinkedHashMap<>(settings);
        Map<String, Object> memtable = new LinkedHashMap<>(map(others.remove(MEMTABLE)));
        memtable.remove(CONFIGURATIONS);
        if (!memtable.isEmpty()) others.put(MEMTABLE, memtable);
        return others;
    }

    private static Map<String, Object> map(@Nullable Object value) {
        Map<String, Object> map = new LinkedHashMap<>();
        if (value instanceof Map<?, ?> found)
            found.forEach((key, each) -> map.put(String.valueOf(key), each));
        return map;
    }
}
