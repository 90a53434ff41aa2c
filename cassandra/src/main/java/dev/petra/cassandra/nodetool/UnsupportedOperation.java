// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.nodetool;

/**
 * The operations that are refused for a table in an engine, by the method of Cassandra that would
 * do them. The constants are named as those methods are.
 */
public enum UnsupportedOperation {
    scrub("scrub", "it has no SSTables to scrub; 'nodetool verify' checks its files"),
    relocateSSTables("relocatesstables", "its data stays in one data directory"),
    forceCompactionForKey(
            "compact --partition", "single partitions cannot be compacted; compact a token range"),
    forceCompactionKeysIgnoringGcGrace(
            "forcecompact", "purging before gc_grace_seconds is not supported"),
    getSSTablesForKey("getsstables", "it has no SSTables"),
    getSSTablesForKeyWithLevel("getsstables --show-levels", "it has no SSTables"),
    setCompactionThresholds("setcompactionthreshold", Constants.BY_ALTER),
    setMinimumCompactionThreshold("MinimumCompactionThreshold", Constants.BY_ALTER),
    setMaximumCompactionThreshold("MaximumCompactionThreshold", Constants.BY_ALTER),
    setCompactionParameters("CompactionParameters", Constants.BY_ALTER),
    setCompressionParameters("CompressionParameters", Constants.BY_ALTER),
    setCrcCheckChance("CrcCheckChance", "it checks each block that it reads"),
    setNeverPurgeTombstones("NeverPurgeTombstones", "it cannot be told to keep tombstones forever");

    private final String verb;
    private final String reason;

    UnsupportedOperation(String verb, String reason) {
        this.verb = verb;
        this.reason = reason;
    }

    private static final class Constants {
        static final String BY_ALTER =
                "its options are those of the schema, on all nodes: ALTER TABLE changes them";

        private Constants() {}
    }

    /** What the operator called. */
    public String verb() {
        return verb;
    }

    /** Why it is refused. */
    public String reason() {
        return reason;
    }
}
