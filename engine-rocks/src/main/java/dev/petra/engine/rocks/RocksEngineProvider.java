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

/** Opens the engine named {@value #NAME}. */
public final class RocksEngineProvider implements StorageEngineProvider {
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
        NativeLibrary.load(read.nativeLibraryDirectory());
        SelfTest.options(Path.of(read.nativeLibraryDirectory()), read.rocksdbOptions());
        return new RocksEngine(read);
    }
}
