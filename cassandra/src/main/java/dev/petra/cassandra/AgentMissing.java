// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.agent.Weaving;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.cassandra.db.commitlog.CommitLogPosition;
import org.apache.cassandra.db.memtable.Memtable;
import org.apache.cassandra.exceptions.ConfigurationException;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableMetadataRef;

/**
 * Refuses tables in engines on a node that has no agent and whose Cassandra is not woven. The
 * message names the mend.
 *
 * <p>Cassandra reads the configuration of an existing table with a fallback, which would turn an
 * exception into its own memtable and show an empty table. There the refusal waits until the table
 * is opened, which ends the start of the node.
 */
public final class AgentMissing implements Memtable.Factory {
    private AgentMissing() {}

    /** Whether this is such a node. */
    static boolean isSo() {
        return Weaving.absence() != null;
    }

    /** Why nothing was woven, if {@link #isSo}. */
    static String reason() {
        return String.valueOf(Weaving.absence());
    }

    /**
     * The factory of an existing table.
     *
     * @throws ConfigurationException for a statement, which it refuses
     */
    static Memtable.Factory refuse() {
        boolean fallback =
                StackWalker.getInstance()
                        .walk(
                                frames ->
                                        frames.anyMatch(
                                                f ->
                                                        f.getClassName()
                                                                        .equals(
                                                                                MemtableParams.class
                                                                                        .getName())
                                                                && f.getMethodName()
                                                                        .equals(
                                                                                "getWithFallback")));
        if (fallback) return new AgentMissing();
        throw new ConfigurationException(message("The table"));
    }

    private static String message(String table) {
        return table
                + " is in a storage engine, which cannot work in this node: "
                + Weaving.absence();
    }

    @Override
    public Memtable create(
            AtomicReference<CommitLogPosition> commitLogLowerBound,
            TableMetadataRef metadata,
            Memtable.Owner owner) {
        throw new ConfigurationException(message("Table " + metadata));
    }
}
