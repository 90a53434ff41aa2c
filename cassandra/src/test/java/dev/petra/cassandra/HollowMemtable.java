// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.TableGenerations;
import org.apache.cassandra.db.memtable.Memtable;

/** Memtables without a node. */
public final class HollowMemtable {
    private HollowMemtable() {}

    /** One of Cassandra's own, which answers nothing. */
    public static Memtable cassandras() {
        return Hollow.proxy(
                Memtable.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "equals" -> self == arguments[0];
                            case "hashCode" -> 2;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }

    /**
     * One of a table in an engine, which stands for the table's current generation.
     *
     * @param departure the number of the migration by which it leaves its engine; 0 for none
     */
    public static EngineMemtable of(TableGenerations stores, long departure) {
        return Hollow.proxy(
                EngineMemtable.class,
                (self, method, arguments) ->
                        switch (method.getName()) {
                            case "departure" -> departure;
                            case "generation" -> stores.current();
                            case "partitionCount" -> 1L;
                            case "equals" -> self == arguments[0];
                            case "hashCode" -> 1;
                            default -> throw new UnsupportedOperationException(method.getName());
                        });
    }
}
