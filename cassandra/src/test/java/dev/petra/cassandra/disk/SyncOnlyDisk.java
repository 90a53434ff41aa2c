// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.List;

/** A disk that notes which directories it is to sync, and fails in everything else. */
public final class SyncOnlyDisk {
    private SyncOnlyDisk() {}

    /**
     * Makes one.
     *
     * @param synced where it notes them
     */
    public static Disk noting(List<Path> synced) {
        return (Disk)
                Proxy.newProxyInstance(
                        Disk.class.getClassLoader(),
                        new Class<?>[] {Disk.class},
                        (proxy, method, arguments) -> {
                            if (!method.getName().equals("syncDirectory"))
                                throw new IOException("crash in " + method.getName());
                            synced.add((Path) arguments[0]);
                            return null;
                        });
    }
}
