// SPDX-License-Identifier: Apache-2.0
/**
 * Engines compared on the same workloads: what they cost, how long their users wait, and how long
 * the garbage collector stops everything.
 *
 * <pre>
 *   Bench              the command: plans forks, runs them in turns, writes results and report
 *     StoreBenchmark   what JMH runs in a JVM of its own
 *       Workload       tables, values, and what is asked
 *       Access         how it is asked: SpiAccess, LocalAccess, ClientAccess
 *       OpenLoop       a fixed rate, timed from when each request was due
 *       Stalls         what the process did meanwhile: pauses, processor, disk, memory
 *     Results, Report  what came of it
 *   Replay             the command for full query logs: times of each engine, answers of two
 * </pre>
 *
 * <p>A release has {@code Replay}, and not JMH: what both commands use names nothing of it.
 */
@NullMarked
package dev.petra.jmh;

import org.jspecify.annotations.NullMarked;
