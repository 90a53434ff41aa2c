// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.staging;

import java.time.Duration;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How long a slice waits for its peer: for bytes that are to come, or until some are taken.
 * Cassandra waits as long as the connection is there, which the kernel of a peer keeps whether or
 * not its process runs. What a slice waits for at its own end, as for the disk, memory or the
 * throttle, does not count; nor does the time in which this process does not run. Thread-safe.
 */
public final class IdleLimit {
    /** The system property of {@link #OF_PROCESS}, in seconds; 0 is no limit. */
    public static final String PROPERTY = "petra.stream.idle_seconds";

    /** Some centuries: more do not fit in nanoseconds. */
    private static final long MOST_SECONDS = Long.MAX_VALUE / 1_000_000_000;

    /** For what a node receives and sends. By default three of Cassandra's keep-alive periods. */
    public static final IdleLimit OF_PROCESS =
            new IdleLimit(Duration.ofSeconds(Math.min(MOST_SECONDS, Long.getLong(PROPERTY, 900))));

    /** A limit is that many looks, all of which see the same wait: not two points in time. */
    private static final int LOOKS = 10;

    private static final Logger logger = LoggerFactory.getLogger(IdleLimit.class);
    private static final ScheduledThreadPoolExecutor LOOKING = looking();

    private final Duration limit;

    /**
     * @param limit none, if it is not positive; it ends a wait up to a tenth later
     */
    public IdleLimit(Duration limit) {
        this.limit = limit;
    }

    private static ScheduledThreadPoolExecutor looking() {
        ScheduledThreadPoolExecutor one =
                new ScheduledThreadPoolExecutor(
                        1,
                        task -> {
                            Thread thread = new Thread(task, "PetraStreamIdle");
                            thread.setDaemon(true);
                            return thread;
                        });
        one.setRemoveOnCancelPolicy(true);
        return one;
    }

    /**
     * Watches one slice.
     *
     * @param what does not happen, for the message: "so-and-so sends no bytes"
     * @param end ends the wait, told why; called once, and again only if it throws; not after
     *     {@link Wait#close}; it must not block
     */
    public Wait watch(String what, Consumer<String> end) {
        return new Wait(what, end);
    }

    /** The waits of one slice, one after the other. All but {@link #isOver} is its thread's. */
    public final class Wait implements AutoCloseable {
        private final String what;
        private final Consumer<String> end;
        private final @Nullable ScheduledFuture<?> looks;

        /** The number of the present wait; 0 if it does not wait. */
        private volatile long present;

        private long last;
        private volatile boolean over;

        /** Guarded by this, as what looks remember. */
        private boolean closed;

        private long seen;
        private int times;

        private Wait(String what, Consumer<String> end) {
            this.what = what;
            this.end = end;
            long period = limit.toNanos() / LOOKS;
            looks =
                    period <= 0
                            ? null
                            : LOOKING.scheduleWithFixedDelay(
                                    this::look, period, period, TimeUnit.NANOSECONDS);
        }

        /** It waits from now on; if it has waited, the peer has done something since. */
        public void begins() {
            last++;
            present = last;
        }

        /** It does not wait any more. Idempotent. */
        public void ends() {
            present = 0;
        }

        private synchronized void look() {
            long now = present;
            times = now != 0 && now == seen ? times + 1 : 0;
            seen = now;
            if (times < LOOKS || over || closed) return;
            over = true;
            try {
                end.accept(reason());
            } catch (RuntimeException | Error e) {
                // No thread may be had now; the next look tries again, as this one's end would
                // be the last.
                over = false;
                logger.error("A stream that waits too long could not be ended: {}", reason(), e);
            }
        }

        /** Whether it was ended. */
        public boolean isOver() {
            return over;
        }

        /** Why it was ended. */
        public String reason() {
            return ("%s for %d s, so the session ends. If that node is only slow, raise -D%s on"
                            + " this one. Repeat the operation that streams.")
                    .formatted(what, limit.toSeconds(), PROPERTY);
        }

        /** Nothing is ended any more. Idempotent. */
        @Override
        public void close() {
            synchronized (this) {
                closed = true;
            }
            if (looks != null) looks.cancel(false);
        }
    }
}
