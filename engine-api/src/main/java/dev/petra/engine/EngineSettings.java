// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.cassandra.config.DataStorageSpec;
import org.apache.cassandra.config.DurationSpec;
import org.apache.cassandra.exceptions.ConfigurationException;

/**
 * Settings as text, read by the conventions of {@code cassandra.yaml}: sizes as {@code 512MiB},
 * times as {@code 10s}. Remembers what was read, so that what nobody understood is refused. Not
 * thread-safe.
 */
public final class EngineSettings {
    private final Map<String, String> values;
    private final Set<String> read = new HashSet<>();

    /** Settings by name. */
    public EngineSettings(Map<String, String> values) {
        this.values = new TreeMap<>(values);
    }

    /** The text of a setting, or what stands for it when absent. */
    public String text(String name, String absent) {
        return get(name, absent, "a text", Function.identity());
    }

    /**
     * A size in bytes.
     *
     * @throws ConfigurationException unless it is a whole number of B, KiB, MiB or GiB
     */
    public long bytes(String name, long absent) {
        return get(
                name,
                absent,
                "a size such as 512MiB (units B, KiB, MiB, GiB)",
                text -> new DataStorageSpec.LongBytesBound(text).toBytes());
    }

    /**
     * A time in milliseconds.
     *
     * @throws ConfigurationException unless it is a whole number of d, h, m, s or ms
     */
    public long millis(String name, long absent) {
        return get(
                name,
                absent,
                "a time such as 10s (units d, h, m, s, ms)",
                text -> new DurationSpec.LongMillisecondsBound(text).toMilliseconds());
    }

    /**
     * A whole number of at least {@code least}.
     *
     * @throws ConfigurationException if it is anything else
     */
    public int count(String name, int absent, int least) {
        return get(
                name,
                absent,
                "a whole number of at least " + least,
                text -> {
                    int value = Integer.parseInt(text);
                    if (value < least) throw new IllegalArgumentException();
                    return value;
                });
    }

    private <T> T get(String name, T absent, String form, Function<String, T> parse) {
        read.add(name);
        String text = values.get(name);
        if (text == null) return absent;
        try {
            return parse.apply(text.trim());
        } catch (IllegalArgumentException | ConfigurationException e) {
            throw new ConfigurationException(
                    "Setting '" + name + "' is '" + text + "', but must be " + form + ".", e);
        }
    }

    /**
     * Refuses what no one has read.
     *
     * @throws ConfigurationException naming the unknown settings and the known ones
     */
    public void refuseUnread(String engine) {
        TreeSet<String> unknown = new TreeSet<>(values.keySet());
        unknown.removeAll(read);
        if (!unknown.isEmpty())
            throw new ConfigurationException(
                    "Engine '"
                            + engine
                            + "' does not know the setting(s) "
                            + unknown
                            + ". It knows "
                            + new TreeSet<>(read)
                            + ".");
    }

    /** Equal settings open equal engines. */
    @Override
    public boolean equals(Object o) {
        return o instanceof EngineSettings that && values.equals(that.values);
    }

    @Override
    public int hashCode() {
        return values.hashCode();
    }

    @Override
    public String toString() {
        return values.toString();
    }
}
