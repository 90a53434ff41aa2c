// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.read.ListAppender;
import java.util.List;
import org.slf4j.LoggerFactory;

/** What classes tell operators. */
public final class Logged {
    private Logged() {}

    /** The lines of one class while something runs, those for debugging left out. */
    public static List<String> by(Class<?> one, Runnable work) {
        Logger logger = (Logger) LoggerFactory.getLogger(one);
        Level usual = logger.getLevel();
        ListAppender<ILoggingEvent> seen = new ListAppender<>();
        seen.start();
        logger.setLevel(Level.INFO);
        logger.addAppender(seen);
        try {
            work.run();
        } finally {
            logger.detachAppender(seen);
            logger.setLevel(usual);
        }
        return seen.list.stream().map(ILoggingEvent::getFormattedMessage).toList();
    }
}
