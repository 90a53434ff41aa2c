// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import java.util.regex.Pattern;
import org.apache.cassandra.schema.SchemaConstants;

/**
 * The names that Cassandra takes for a snapshot: {@code ColumnFamilyStore.validateSnapshotName}.
 */
public final class SnapshotNames {
    private static final Pattern ALLOWED = Pattern.compile("[a-zA-Z0-9_.+-]+");

    private SnapshotNames() {}

    /**
     * Refuses a name before anything is made for it.
     *
     * @throws IllegalArgumentException if a snapshot of that name is refused, or would lie
     *     elsewhere than beside the others
     */
    public static void check(String name) {
        if (name.isEmpty() || name.contains("/") || name.equals(".") || name.equals(".."))
            throw new IllegalArgumentException(
                    "'"
                            + name
                            + "' cannot be the name of a snapshot: it must be that of a folder.");
        // By its name: the constant is in 5.0.9 only.
        if (Boolean.getBoolean("cassandra.snapshot.validation")
                && (name.length() > SchemaConstants.FILENAME_LENGTH
                        || !ALLOWED.matcher(name).matches()))
            throw new IllegalArgumentException(
                    "'"
                            + name
                            + "' cannot be the name of a snapshot: -Dcassandra.snapshot.validation"
                            + " allows letters, digits and _.+- only, at most "
                            + SchemaConstants.FILENAME_LENGTH
                            + " of them.");
    }
}
