// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import dev.petra.engine.StorageEngine;
import java.lang.reflect.Field;
import java.util.Map;

/** The engines of a process, for tests without a node. */
public final class OpenEngines {
    private OpenEngines() {}

    /** Those that are open: one that is put there is not looked for. */
    @SuppressWarnings("unchecked")
    public static Map<EngineKey, StorageEngine> map() {
        try {
            Field open = Engines.class.getDeclaredField("open");
            open.setAccessible(true);
            return (Map<EngineKey, StorageEngine>) open.get(null);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }
}
