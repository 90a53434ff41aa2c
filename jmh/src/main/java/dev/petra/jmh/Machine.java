// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the figures were measured on. */
final class Machine {
    private Machine() {}

    /** As far as the system tells. */
    static Map<String, String> describe() {
        Map<String, String> machine = new LinkedHashMap<>();
        machine.put("processor", first("/proc/cpuinfo", "model name\\s*:\\s*(.*)"));
        machine.put("cores", Integer.toString(Runtime.getRuntime().availableProcessors()));
        machine.put("memory", first("/proc/meminfo", "MemTotal:\\s*(.*)"));
        machine.put(
                "system", System.getProperty("os.name") + " " + System.getProperty("os.version"));
        machine.put(
                "java",
                System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"));
        machine.put(
                "native memory",
                Objects.requireNonNullElse(System.getenv("LD_PRELOAD"), "").contains("jemalloc")
                        ? "jemalloc"
                        : "of the C library");
        machine.put("load when it began", first("/proc/loadavg", "(\\S+ \\S+ \\S+)"));
        return machine;
    }

    private static String first(String file, String pattern) {
        try {
            Matcher matcher = Pattern.compile(pattern).matcher(Files.readString(Path.of(file)));
            return matcher.find() ? matcher.group(1).strip() : "unknown";
        } catch (IOException e) {
            return "unknown";
        }
    }
}
