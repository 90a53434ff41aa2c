// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.rocksdb.InfoLogLevel;
import org.rocksdb.RocksDB;

class StoreLogTest {
    static {
        RocksDB.loadLibrary();
    }

    /** With DEBUG on, RocksDB says what a checkpoint failed with. */
    @Test
    void aCheckpointThatCannotBeSyncedIsNoFailureOfTheLog() {
        try (StoreLog log = new StoreLog("t")) {
            String error = "IO error: While fsync: a directory: Input/output error";
            log.log(InfoLogLevel.INFO_LEVEL, "[checkpoint_impl.cc:1] Snapshot failed -- " + error);
            assertThat(log.syncFailure()).isNull();
            log.log(InfoLogLevel.ERROR_LEVEL, "Waiting after background flush error: " + error);
            assertThat(log.syncFailure()).contains(error);
            log.log(InfoLogLevel.ERROR_LEVEL, "WAL Sync error IO error: another");
            assertThat(log.syncFailure()).as("the first one").contains(error);
        }
    }

    /** RocksDB tries to go on by itself when the disk has room again, and may find none. */
    @Test
    void aSyncThatFoundNoRoomForWhatItWasToWriteIsNoFailureOfTheLog() {
        try (StoreLog log = new StoreLog("t")) {
            String append = "While appending to file: /d/000012.log: ";
            log.log(
                    InfoLogLevel.ERROR_LEVEL,
                    "WAL Sync error IO error: No space left on device: "
                            + append
                            + "No space left on device");
            log.log(
                    InfoLogLevel.ERROR_LEVEL,
                    "WAL Sync error IO error: " + append + "Disk quota exceeded");
            assertThat(log.syncFailure()).isNull();
            log.log(
                    InfoLogLevel.ERROR_LEVEL,
                    "WAL Sync error IO error: " + append + "Input/output error");
            assertThat(log.syncFailure()).isNotNull();
        }
    }
}
