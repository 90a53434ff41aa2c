// SPDX-License-Identifier: Apache-2.0
/**
 * Runs CQL from a command line. A {@link dev.petra.launcher.cql.CqlScript} splits a script into
 * statements, a {@link dev.petra.launcher.cql.CqlClient} runs them one after another on one node,
 * and a {@link dev.petra.launcher.cql.RowWriter} writes their results, page by page:
 *
 * <pre>{@code
 * try (CqlClient client = CqlClient.connect("127.0.0.1", 9042, Duration.ofSeconds(30))) {
 *     for (String statement : CqlScript.split("USE ks; SELECT * FROM t")) {
 *         client.run(statement, new AlignedRows(out), err);
 *     }
 * }
 * }</pre>
 */
@NullMarked
package dev.petra.launcher.cql;

import org.jspecify.annotations.NullMarked;
