// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What the figures were measured on. */
final class Machine {
    private Machine() {}

    /**
     * As far as the system tells.
     *
     * @param data a directory of the disk that the data is on
     * @param revision of what is measured
     */
    static Map<String, String> describe(Path data, Revision revision) {
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
        machine.put("read-ahead of the disk", readAhead(data));
        machine.put("revision of Petra", revision.toString());
        machine.put("load when it began", first("/proc/loadavg", "(\\S+ \\S+ \\S+)"));
        return machine;
    }

    /** Of the device, or of the disk that it is a part of. */
    private static String readAhead(Path data) {
        try {
            long device = (long) Files.getAttribute(data, "unix:dev");
            long major = ((device >> 8) & 0xFFF) | ((device >> 32) & ~0xFFFL);
            long minor = (device & 0xFF) | ((device >> 12) & ~0xFFL);
            Path block = Path.of("/sys/dev/block", major + ":" + minor).toRealPath();
            for (Path disk : List.of(block, block.resolve(".."))) {
                Path setting = disk.resolve("queue/read_ahead_kb");
                if (Files.exists(setting)) return Files.readString(setting).strip() + " KiB";
            }
            return "unknown";
        } catch (IOException | UnsupportedOperationException e) {
            // No block device of its own, as of an overlay.
            return "unknown";
        }
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
