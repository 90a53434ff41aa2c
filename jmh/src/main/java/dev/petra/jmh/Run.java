// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;

/** One measurement: a JVM of its own. */
record Run(String workload, Access.Level level, String gc, String operation, Engine engine) {
    private static final List<String> CLOSED = List.of("read", "write", "mixed");
    private static final List<String> ONCE =
            List.of("load", "backlog", "bootstrap", "tables", "bytes");

    /** What all engines are measured in alike. */
    String setting() {
        return String.join("-", workload, level.name().toLowerCase(Locale.ROOT), gc);
    }

    /** Whether what JMH says of an operation is of one request. */
    boolean isTimedByJmh() {
        return !operation.equals("openLoop") && !isOnce();
    }

    /** Whether requests follow each other as fast as they are answered. */
    boolean isClosedLoop() {
        return CLOSED.contains(operation);
    }

    /** How the metrics of a kind of its requests begin, where there are two. */
    String beginning(String kind) {
        return operation.equals(kind) ? "" : kind + " ";
    }

    /** Whether it changes what there is, so that each round begins with nothing. */
    boolean isOnce() {
        return ONCE.contains(operation);
    }

    /** The seed of its requests: the same for all engines, another in each round. */
    long seed(long base, int round) {
        long mixed = new SplittableRandom(base + round).nextLong();
        return mixed ^ (31L * setting().hashCode() + operation.hashCode());
    }

    String name() {
        return setting() + "-" + operation + "-" + engine.label();
    }

    /** Where its node and its data are. */
    Path directory(Path work) {
        return work.resolve(setting() + "-" + engine.label());
    }
}
