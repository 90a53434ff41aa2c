// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.engine.OpenEngines;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class FormerCopiesTest {
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);

    FormerCopiesTest() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TestTables.reference());
    }

    /** One kept the shadow from coming back, although there was room on the others. */
    @Test
    void aDiskOnWhichNothingCanBeDeletedIsPassedOver(@TempDir Path disks) throws Exception {
        Path failed = disks.resolve("failed");
        Path other = disks.resolve("other");
        // Cannot be taken away, as on a disk that is read-only.
        Files.createDirectories(failed.resolve("rocksdb_shadow/CLOSED/x"));
        Files.createDirectories(failed.resolve("rocksdb_shadow/7"));
        Files.createDirectories(other.resolve("rocksdb_shadow/3"));
        List<Path> deleted = new ArrayList<>();
        StorageEngine engine =
                (StorageEngine)
                        Proxy.newProxyInstance(
                                getClass().getClassLoader(),
                                new Class<?>[] {StorageEngine.class},
                                (proxy, method, arguments) -> {
                                    if (!method.getName().equals("deleteStore"))
                                        throw new UnsupportedOperationException(method.getName());
                                    deleted.add((Path) arguments[0]);
                                    return null;
                                });
        EngineKey key = new EngineKey("rocks", new EngineSettings(Map.of("memory", "77MiB")));
        FormerCopies copies = new FormerCopies(cfs, key);
        Map<EngineKey, StorageEngine> engines = OpenEngines.map();
        engines.put(key, engine);
        try {
            HollowShadow.lieIn(cfs, failed, other);
            FormerCopies.Place place = copies.nextPlace();
            assertThat(place.folder()).hasToString(other.resolve("rocksdb_shadow").toString());
            assertThat(place.number()).isEqualTo(8);
            // What CLOSED names stays whole, as long as that is there.
            assertThat(deleted).containsExactly(other.resolve("rocksdb_shadow/3"));

            HollowShadow.lieIn(cfs, failed);
            assertThatThrownBy(copies::nextPlace)
                    .isInstanceOf(IllegalStateException.class)
                    .hasMessageContaining("none of its disks");
        } finally {
            engines.remove(key);
        }
    }
}
