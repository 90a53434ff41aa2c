// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The engines of this process, opened when first asked for and closed together. Thread-safe. */
public final class Engines {
    private static final Logger logger = LoggerFactory.getLogger(Engines.class);

    private static final Map<EngineKey, StorageEngine> open = new HashMap<>();
    private static boolean closed;

    private Engines() {}

    /**
     * The engine of that name and settings. Blocks while it is opened, which may load native code.
     *
     * @throws ConfigurationException if there is no such engine or a setting is wrong
     * @throws IllegalStateException after {@link #closeAll}
     */
    public static synchronized StorageEngine get(EngineKey key) {
        if (closed)
            throw new IllegalStateException(
                    "Storage engine '" + key.engine() + "' is closed: the node is shut down.");
        StorageEngine engine = open.get(key);
        if (engine == null) {
            engine = StorageEngines.open(key.engine(), key.settings());
            HostSettings.applyTo(engine);
            open.put(key, engine);
            EngineMetrics.register(engine);
            logger.info("Opened storage engine {}", key);
        }
        return engine;
    }

    /** Those that are open. */
    public static synchronized void forEach(BiConsumer<EngineKey, StorageEngine> use) {
        open.forEach(use);
    }

    /** Those that are open. */
    public static synchronized List<StorageEngine> opened() {
        return List.copyOf(open.values());
    }

    /** Follows a change of {@code compaction_throughput}. */
    public static synchronized void compactionThroughputChanged() {
        long bytesPerSecond = HostSettings.compactionThroughput();
        open.forEach(
                (key, engine) -> {
                    engine.compactionThroughput(bytesPerSecond);
                    logger.info(
                            "Storage engine {} compacts at {} B/s at most", key, bytesPerSecond);
                });
    }

    /**
     * Closes all engines, and with them all stores, after the node has drained. Waits for reads in
     * flight; what comes later fails. One that fails to close does not keep the others open.
     */
    public static synchronized void closeAll() {
        closed = true;
        List<Throwable> failures = new ArrayList<>();
        open.forEach(
                (key, engine) -> {
                    try {
                        engine.close();
                        logger.info("Closed storage engine {}", key);
                    } catch (RuntimeException | Error e) {
                        logger.error("Storage engine {} did not close cleanly", key, e);
                        failures.add(e);
                    }
                });
        open.clear();
        if (!failures.isEmpty())
            throw new IllegalStateException(
                    failures.size() + " storage engine(s) did not close cleanly", failures.get(0));
    }
}
