// SPDX-License-Identifier: Apache-2.0
/**
 * The storage-engine SPI: what a store is to Cassandra.
 *
 * <p>A {@link dev.petra.engine.StorageEngineProvider} is found by name through {@link
 * java.util.ServiceLoader}; the name is what {@code cassandra.yaml} persists. It opens one {@link
 * dev.petra.engine.StorageEngine} per node, which owns what all tables share (memory, threads), and
 * that opens one {@link dev.petra.engine.TableStore} per table generation:
 *
 * <pre>{@code
 * StorageEngine engine = StorageEngines.open("rocks", settings);
 * try (TableStore store = engine.openStore(new StoreSpec(directory, "emp", 1, metadata))) {
 *     store.write(update);
 *     try (UnfilteredRowIterator rows = store.read(key, Slices.ALL, columns, false)) { ... }
 *     store.flush();
 * }
 * }</pre>
 *
 * <p>The SPI speaks Cassandra's types, because its user is a Cassandra; it knows nothing of {@code
 * ColumnFamilyStore}, {@code StreamSession} or {@code Memtable}, which belong to the host side. It
 * returns data as it is stored: tombstones and expired cells included, reconciled as {@code
 * Rows.merge} does, with nothing purged and no clock read. Purging is maintenance.
 *
 * <p>Whoever writes an engine starts with the conformance kit in this module's test jar: extend
 * {@code StorageEngineConformance}, return the engine from one method, and every rule stated here
 * is tested.
 *
 * <p>Errors: {@link org.apache.cassandra.io.FSReadError} and {@link
 * org.apache.cassandra.io.FSWriteError} for what the disk did, so that {@code disk_failure_policy}
 * applies; {@link dev.petra.engine.CorruptStoreException} for bytes that are not what was written;
 * {@link org.apache.cassandra.exceptions.ConfigurationException} for settings; {@link
 * java.lang.UnsupportedOperationException} naming the operation and the engine for what an engine
 * does not do.
 */
@NullMarked
package dev.petra.engine;

import org.jspecify.annotations.NullMarked;
