// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Generation;
import org.apache.cassandra.db.ColumnFamilyStore;

/** A memtable configuration of {@code cassandra.yaml} that reads what is left in a store. */
public interface EngineConfiguration {
    /** Its engine. */
    EngineKey engine();

    /** Its name. */
    String configuration();

    /** The memtable of a table that is not the current one, whose data leaves by that migration. */
    EngineMemtable departing(ColumnFamilyStore cfs, Generation generation, long migration);
}
