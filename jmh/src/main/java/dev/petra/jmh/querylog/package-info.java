// SPDX-License-Identifier: Apache-2.0
/**
 * Cassandra's full query logs ({@code nodetool enablefullquerylog}) and audit logs, asked again of
 * other nodes.
 *
 * <pre>
 *   QueryLog      reads logs, in the order in which their requests began
 *   NodeLog       that of one node
 *   AuditEntries  the entries of an audit log as requests
 *   AuditText     an audit log that is a text
 *   LoggedQuery   a request, with all that its answer depends on
 *   CqlText       what a statement does, to which table
 *   TableSchema   the tables of a snapshot
 *   Player        asks requests of a node
 *   Comparison    asks two nodes, and holds their answers against each other
 *   Pace          asks one node at the speed of the log, and takes the time
 * </pre>
 */
@NullMarked
package dev.petra.jmh.querylog;

import org.jspecify.annotations.NullMarked;
