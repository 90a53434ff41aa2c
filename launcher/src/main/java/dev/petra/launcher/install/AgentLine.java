// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.install;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The {@code -javaagent} line in {@code jvm-server.options}. */
final class AgentLine {
    static final String OPTION = "-javaagent:";

    private static final Pattern AGENT = Pattern.compile(OPTION + "([^\\s\"'=]+)");

    /** What Cassandra's start script, the JVM or a class path would take apart. */
    private static final Pattern UNSAFE = Pattern.compile("[\\s\"'`$\\\\*?\\[\\]=:;&|<>()#!{}]");

    private AgentLine() {}

    /** The line for a jar. */
    static String of(Path jar) {
        if (UNSAFE.matcher(jar.toString()).find())
            throw new InstallException(
                    "Cassandra's start script cannot pass on the path of "
                            + jar
                            + ": name the folder by a path, or a link, without spaces and signs"
                            + " that mean something to a shell");
        return OPTION + jar;
    }

    /**
     * The options with the line.
     *
     * @throws InstallException if the lines between the markers are not those of this command
     */
    static String install(TextFile options, Path jar) {
        String line = TextFile.encoded(of(jar));
        Optional<MarkedBlock> block = MarkedBlock.find(options.path(), options.text());
        if (block.isEmpty()) return MarkedBlock.append(options.text(), List.of(line));
        List<String> agents =
                block.get().lines().stream().filter(each -> each.startsWith(OPTION)).toList();
        if (agents.size() != 1)
            throw new InstallException(
                    options.path()
                            + " has "
                            + agents.size()
                            + " lines "
                            + OPTION
                            + "… between Petra's markers instead of one: remove these lines and the"
                            + " markers by hand");
        return block.get().replacedIn(options.text(), agents.get(0), line);
    }

    /** The line that is there; none if this command has not written it. */
    static List<String> installed(TextFile options) {
        return MarkedBlock.find(options.path(), options.text()).stream()
                .flatMap(block -> block.lines().stream())
                .filter(line -> line.startsWith(OPTION))
                .map(TextFile::decoded)
                .toList();
    }

    /** The options without it. */
    static String uninstall(TextFile options) {
        return MarkedBlock.find(options.path(), options.text())
                .map(block -> block.removedFrom(options.text()))
                .orElse(options.text());
    }

    /** Lines that load Petra's agent and that this command did not write, as {@code file: line}. */
    static List<String> writtenByHand(Layout layout) {
        List<String> found = new ArrayList<>();
        for (Path path : layout.optionFiles()) {
            TextFile file = TextFile.read(path);
            for (String line : uninstall(file).lines().map(String::strip).toList()) {
                if (line.startsWith("#")) continue;
                Matcher agent = AGENT.matcher(line);
                while (agent.find())
                    if (isPlugin(layout, agent.group(1))) found.add(path + ": " + line);
            }
        }
        return found;
    }

    private static boolean isPlugin(Layout layout, String jar) {
        Path path = Path.of(TextFile.decoded(layout.withHome(jar)));
        if (String.valueOf(path.getFileName()).toLowerCase(Locale.ROOT).contains("petra"))
            return true;
        List<Path> plugins = new ArrayList<>();
        plugins.add(layout.plugin());
        for (Jar plugin : layout.plugins()) plugins.add(plugin.path());
        try {
            for (Path plugin : plugins)
                if (Files.exists(path) && Files.exists(plugin) && Files.isSameFile(path, plugin))
                    return true;
        } catch (IOException e) {
            throw new InstallException("cannot read " + path + ": " + e, e);
        }
        return false;
    }
}
