// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.slf4j.LoggerFactory;

/** What a class logs at one level until this is closed; it logs nothing below that meanwhile. */
public final class CapturedLog implements AutoCloseable {
    private final ListAppender<ILoggingEvent> events = new ListAppender<>();
    private final Logger logger;
    private final Level level;
    private final @Nullable Level usual;

    /** Begins to capture. */
    public CapturedLog(Class<?> of, Level level) {
        this.logger = (Logger) LoggerFactory.getLogger(of);
        this.level = level;
        this.usual = logger.getLevel();
        events.start();
        logger.setLevel(level);
        logger.addAppender(events);
    }

    /** In their order. */
    public List<String> messages() {
        return events.list.stream()
                .filter(event -> event.getLevel().equals(level))
                .map(ILoggingEvent::getFormattedMessage)
                .toList();
    }

    @Override
    public void close() {
        logger.detachAppender(events);
        logger.setLevel(usual);
    }
}
