// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A file beside the stores of a table that keeps a Cassandra without Petra from starting. Such a
 * node would show the table as empty, and nothing of Petra is there to refuse: a package update may
 * have replaced {@code jvm-server.options} and {@code cassandra.yaml} both.
 *
 * <p>Cassandra's start-up check of SSTables refuses every file in its data directories whose name
 * ends in {@code .db} and is no SSTable's, and names it in its message; it does not look into
 * snapshots, nor into any folder of that name or named {@code backups}, and follows no symbolic
 * link: the start warns of guards that it does not see. A join point makes it pass over this one.
 * No other code of Cassandra looks for files in the folder of a table's stores.
 */
public final class StoreGuard {
    /** Cassandra's message names the file, so the name is what the operator reads. */
    public static final String NAME = "this_table_needs_Petra_which_was_not_loaded.db";

    private static final String CONTENT =
            "This file belongs to Petra, a storage engine for Apache Cassandra. The table in this"
                    + " folder is\nstored by Petra, and a Cassandra without Petra would show it as"
                    + " empty. The file keeps such a\nCassandra from starting: its check of"
                    + " SSTables calls this file an unreadable SSTable.\n\nRun 'petra install'"
                    + " again, or put back the -javaagent line and the memtable configuration\nof"
                    + " Petra, and start the node. The data is as it was. Do not delete this"
                    + " file.\n";

    private StoreGuard() {}

    /** Whether a file of that name is one. */
    public static boolean isNameOf(String file) {
        return file.equals(NAME);
    }

    /**
     * Makes sure that one is there. Whoever needs it durable syncs the directory.
     *
     * @param stores the folder of a table's stores, which exists
     */
    static void put(Path stores) throws IOException {
        Path file = stores.resolve(NAME);
        // A full disk leaves one without its text.
        if (!Files.exists(file) || Files.size(file) == 0)
            Files.write(file, CONTENT.getBytes(UTF_8));
    }

    /** Idempotent. */
    static void remove(Path stores) throws IOException {
        Files.deleteIfExists(stores.resolve(NAME));
    }
}
