// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.BackgroundTask;
import dev.petra.engine.BackgroundTask.Kind;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.rocksdb.Env;
import org.rocksdb.OperationType;
import org.rocksdb.RocksDBException;
import org.rocksdb.ThreadStatus;

/** What RocksDB's background threads are doing. */
final class BackgroundTasks {
    private BackgroundTasks() {}

    /**
     * The tasks of some stores.
     *
     * @param stores by directory, null for a directory of none of them
     */
    static List<BackgroundTask> now(Function<Path, @Nullable RocksStore> stores)
            throws RocksDBException {
        List<BackgroundTask> tasks = new ArrayList<>();
        for (ThreadStatus thread : Env.getDefault().getThreadList()) {
            OperationType type = thread.getOperationType();
            if (type != OperationType.OP_FLUSH && type != OperationType.OP_COMPACTION) continue;
            RocksStore store = stores.apply(Path.of(thread.getDbName()));
            if (store == null) continue;
            Map<String, Long> properties =
                    ThreadStatus.interpretOperationProperties(
                            type, thread.getOperationProperties());
            tasks.add(
                    type == OperationType.OP_FLUSH
                            ? new BackgroundTask(
                                    store.spec(),
                                    Kind.FLUSH,
                                    of(properties, "BytesWritten"),
                                    of(properties, "BytesMemtables"))
                            : new BackgroundTask(
                                    store.spec(),
                                    Kind.COMPACTION,
                                    of(properties, "BytesRead"),
                                    of(properties, "TotalInputBytes")));
        }
        return tasks;
    }

    private static long of(Map<String, Long> properties, String name) {
        return properties.getOrDefault(name, 0L);
    }
}
