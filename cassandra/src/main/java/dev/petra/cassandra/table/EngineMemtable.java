// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import dev.petra.cassandra.engine.EngineKey;
import org.apache.cassandra.db.memtable.Memtable;

/** What the host knows of a memtable whose data is one generation in a storage engine. */
public interface EngineMemtable extends Memtable {
    /** Which generation this stands for. */
    Generation generation();

    /** Which engine it is in. */
    EngineKey engine();

    /** The number of the migration by which this memtable's data leaves the engine; 0 for none. */
    long departure();
}
