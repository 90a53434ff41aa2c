// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.wal;

import java.nio.file.Path;
import java.util.Objects;
import org.apache.cassandra.io.FSWriteError;

/**
 * A sync of a log has failed, and what the disk did not take then may be gone from it: no later
 * sync counts, until the process has ended.
 */
public final class FailedSyncError extends FSWriteError {
    private static final long serialVersionUID = 1;

    /**
     * @param cause whose message says so, and what is to be done
     */
    public FailedSyncError(Exception cause, Path directory) {
        super(cause, directory);
    }

    @Override
    public String getMessage() {
        return String.valueOf(Objects.requireNonNull(getCause()).getMessage());
    }
}
