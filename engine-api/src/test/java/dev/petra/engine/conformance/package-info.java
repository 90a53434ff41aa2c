// SPDX-License-Identifier: Apache-2.0
/**
 * The conformance kit: what every storage engine must do, as tests.
 *
 * <p>An engine's test extends {@link dev.petra.engine.conformance.StorageEngineConformance} and
 * names the engine:
 *
 * <pre>{@code
 * final class RocksConformanceTest extends StorageEngineConformance {
 *     @Override
 *     protected String engineName() {
 *         return "rocks";
 *     }
 * }
 * }</pre>
 *
 * <p>The rules are stated twice. Once as examples, each with the expected answer written down; and
 * once as a comparison: {@link dev.petra.engine.conformance.Differential} applies random histories
 * to the engine and to the reference ({@code dev.petra.engine.reference.MemoryEngine}, which is
 * Cassandra's own memtable code) and compares every answer. A failure prints the seed and the
 * shortest history found; {@code -Dpetra.seed=N} runs one seed again, {@code
 * -Dpetra.fuzz.seconds=N} runs for longer.
 *
 * <p>{@link dev.petra.engine.conformance.HostFixture} makes just enough of a Cassandra, {@link
 * dev.petra.engine.conformance.TestTable} and {@link dev.petra.engine.conformance.UpdateBuilder}
 * make tables and updates, {@link dev.petra.engine.conformance.PartitionContent} is what is
 * compared.
 */
package dev.petra.engine.conformance;
