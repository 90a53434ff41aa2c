// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngineProvider;
import dev.petra.engine.rocks.db.RocksSettings;
import dev.petra.engine.rocks.db.StoreDescriptor;
import dev.petra.engine.rocks.nativelib.NativeLibrary;
import dev.petra.engine.rocks.nativelib.SelfTest;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Opens the engine named {@value #NAME}. */
public final class RocksEngineProvider implements StorageEngineProvider {
    private static final Logger logger = LoggerFactory.getLogger(RocksEngineProvider.class);

    static final String NAME = StoreDescriptor.ENGINE;

    /** For the service loader. */
    public RocksEngineProvider() {}

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public StorageEngine open(EngineSettings settings) {
        RocksSettings read = RocksSettings.of(settings);
        if (read.memory() > RocksSettings.spareMemory())
            logger.warn(
                    "memory is {} MiB, but the heap and the JVM leave {} MiB of the machine or the"
                            + " container: the node may be killed for want of memory. Set a smaller"
                            + " memory or heap.",
                    read.memory() >> 20,
                    RocksSettings.spareMemory() >> 20);
        NativeLibrary.load(read.nativeLibraryDirectory());
        SelfTest.options(Path.of(read.nativeLibraryDirectory()), read.rocksdbOptions());
        return new RocksEngine(read);
    }
}
