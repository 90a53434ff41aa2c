// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.commitlog;

import com.google.common.base.Strings;
import org.apache.cassandra.db.commitlog.CommitLog;

/**
 * Archived commit logs and their restoration to a point in time. They do not include tables in
 * engines.
 */
public final class LogArchive {
    private LogArchive() {}

    /** Whether {@code commitlog_archiving.properties} has any archived or restored. */
    public static boolean isConfigured() {
        return !Strings.isNullOrEmpty(CommitLog.instance.getArchiveCommand())
                || !Strings.isNullOrEmpty(CommitLog.instance.getRestoreDirectories());
    }
}
