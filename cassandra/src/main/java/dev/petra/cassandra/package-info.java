// SPDX-License-Identifier: Apache-2.0
/**
 * The host side: what stands between stock Cassandra and a storage engine.
 *
 * <pre>
 *   Cassandra                        host side                          engine
 *   memtable API  ---------------->  PetraMemtable  -> Generation  -->  TableStore
 *   life cycle, through join points
 *   (the agent weaves them)  ----->  Hooks  -> TableStores, Verbs,
 *                                    SchemaGate, StartupCheck
 * </pre>
 *
 * <p>{@link dev.petra.cassandra.Hooks} is the one class that Cassandra's code calls outside the
 * memtable API: in a fork by one line at each join point, on stock Cassandra through the agent in
 * {@link dev.petra.cassandra.agent}. Nothing here knows which engine is behind the SPI.
 *
 * <p>A table has one {@link dev.petra.cassandra.TableStores}, which counts its generations:
 * TRUNCATE starts a new one, and {@link dev.petra.cassandra.LivePointer} says durably which is
 * alive.
 *
 * <p>What is not really supported refuses, naming the table and the reason: a verb that reports
 * success has done its work.
 */
@NullMarked
package dev.petra.cassandra;

import org.jspecify.annotations.NullMarked;
