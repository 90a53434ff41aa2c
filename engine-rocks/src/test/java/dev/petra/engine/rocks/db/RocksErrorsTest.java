// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.WriteStallException;
import java.nio.file.Path;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.rocksdb.RocksDBException;
import org.rocksdb.Status;

/** What RocksDB says, in the words of its {@code env/io_posix.cc}. */
class RocksErrorsTest {
    @ParameterizedTest
    @ValueSource(
            strings = {
                "While fdatasync: 000010.log: Input/output error",
                "While fsync: a directory: Input/output error",
                "Background IO error IO error: While fdatasync: /data files/x: y/000010.log:"
                        + " Input/output error"
            })
    void aSyncOfTheLogHasFailed(String message) {
        assertThat(RocksErrors.isLogSync(message)).isTrue();
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "While fsync: /mnt/data directory/x/000010.sst: Input/output error",
                "While fsync: /mnt/disk1.log/x/MANIFEST-000004: Input/output error",
                "While appending to file: /x/000010.log: No space left on device"
            })
    void somethingElseHasFailed(String message) {
        assertThat(RocksErrors.isLogSync(message)).isFalse();
    }

    /** For a quota RocksDB has no code, and the table's disk counted as broken. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "While appending to file: /x/000010.log: Disk quota exceeded",
                "While appending to file: /x/000010.log: Quota exceeded"
            })
    void aQuotaThatIsUsedUpIsAFullDisk(String message) {
        RocksDBException e =
                new RocksDBException(
                        message, new Status(Status.Code.IOError, Status.SubCode.None, message));
        assertThat(RocksErrors.isFull(e)).isTrue();
        assertThat(RocksErrors.isLogFull(e)).isTrue();
        assertThat(RocksErrors.onWrite(e, "ks.t", Path.of("/x")))
                .isInstanceOfSatisfying(
                        WriteStallException.class, full -> assertThat(full.isDiskFull()).isTrue());
    }
}
