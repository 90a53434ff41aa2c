// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** What one node was asked, in the order in which it logged that. Not thread-safe. */
interface NodeLog extends AutoCloseable {
    /** The next request; null at the end. */
    @Nullable LoggedQuery next();

    /** What could not be read so far, for people. */
    List<String> losses();

    @Override
    void close();
}
