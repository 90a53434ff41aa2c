// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.conformance;

import dev.petra.engine.DirectoryTree;
import dev.petra.engine.EngineSettings;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StorageEngines;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.reference.MemoryEngineProvider;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.function.Supplier;

/**
 * The engine that a test is about, opened, with a directory of its own; and the reference beside
 * it. Closed, and its directory deleted, at the end of the test.
 */
public final class EngineUnderTest implements AutoCloseable {
    private final Supplier<StorageEngine> opener;
    private final Capabilities capabilities;
    private final Path root;
    private final StorageEngine reference;
    private StorageEngine engine;
    private int directories;

    /** Opens an engine by its name. */
    public EngineUnderTest(
            String engineName, Map<String, String> settings, Capabilities capabilities) {
        this(() -> StorageEngines.open(engineName, new EngineSettings(settings)), capabilities);
    }

    /** Opens an engine, as often as it must be, by whatever opens it. */
    public EngineUnderTest(Supplier<StorageEngine> opener, Capabilities capabilities) {
        HostFixture.initialise();
        this.opener = opener;
        this.capabilities = capabilities;
        this.root = temporaryDirectory();
        this.reference =
                StorageEngines.open(MemoryEngineProvider.NAME, new EngineSettings(Map.of()));
        this.engine = opener.get();
    }

    private static Path temporaryDirectory() {
        try {
            return Files.createTempDirectory("petra-conformance");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** The engine. */
    public StorageEngine engine() {
        return engine;
    }

    /** What it does. */
    public Capabilities capabilities() {
        return capabilities;
    }

    /** Closes the engine with all its stores and opens it anew. */
    public StorageEngine restart() {
        engine.close();
        engine = opener.get();
        return engine;
    }

    /** A directory for a store: does not exist, its parent does. */
    public Path newDirectory() {
        return root.resolve("store-" + directories++);
    }

    /** Opens a new store of the table. */
    public TableStore open(TestTable table) {
        return engine.openStore(table.spec(newDirectory()));
    }

    /** Closes a store and opens it again. */
    public TableStore reopen(TableStore store) {
        StoreSpec spec = store.spec();
        store.close();
        return engine.openStore(spec);
    }

    /** Opens a new store of the table, and one of the reference beside it. */
    public ComparedStore compared(TestTable table) {
        return new ComparedStore(this, table);
    }

    /** Opens a new store of the reference engine. */
    TableStore openReference(TestTable table) {
        return reference.openStore(table.spec(newDirectory()));
    }

    @Override
    public void close() {
        engine.close();
        reference.close();
        // Also if Cassandra deletes files of its own storage in the background yet.
        DirectoryTree.delete(root);
    }
}
