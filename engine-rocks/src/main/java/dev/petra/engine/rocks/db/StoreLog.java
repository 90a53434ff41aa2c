// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import java.util.List;
import org.rocksdb.InfoLogLevel;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * RocksDB's own log of one store, in Cassandra's log: warnings and errors, and everything else if
 * DEBUG is on for this class when the store is opened. Called on RocksDB's threads, with its lock
 * held.
 */
public final class StoreLog extends org.rocksdb.Logger {
    private static final Logger logger = LoggerFactory.getLogger(StoreLog.class);

    /**
     * Warnings that are expected: of the end of each log that was written over another, when a
     * store is opened; and of each file that is read outside of the database.
     */
    private static final List<String> EXPECTED = List.of("possibly recycled", "Tail prefetch size");

    private final String name;

    StoreLog(String name) {
        super(logger.isDebugEnabled() ? InfoLogLevel.INFO_LEVEL : InfoLogLevel.WARN_LEVEL);
        this.name = name;
    }

    @Override
    protected void log(InfoLogLevel level, String message) {
        if (EXPECTED.stream().anyMatch(message::contains)) logger.debug("{}: {}", name, message);
        else log(message, level);
    }

    private void log(String message, InfoLogLevel level) {
        switch (level) {
            case WARN_LEVEL -> logger.warn("{}: {}", name, message);
            case ERROR_LEVEL, FATAL_LEVEL -> logger.error("{}: {}", name, message);
            default -> logger.debug("{}: {}", name, message);
        }
    }
}
