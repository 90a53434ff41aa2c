// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.FileStore;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttributeView;
import java.nio.file.attribute.FileStoreAttributeView;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/** When an SSTable is not written, because it or others would fill the disk. */
class ExportRoomTest {
    private static final Path DIRECTORY = Path.of("somewhere");

    private final FakeDisk disk = new FakeDisk();

    private ExportRoom room(String name, long estimate) throws IOException {
        return new ExportRoom(disk, DIRECTORY, name, estimate);
    }

    @Test
    void twoAtOnceNeedTheRoomOfTwo() throws IOException {
        long estimate = 10 * ExportRoom.STEP;
        disk.free = 50 * ExportRoom.STEP;
        try (ExportRoom first = room("SSTable 1", estimate)) {
            assertThatThrownBy(() -> room("SSTable 2", estimate))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("SSTable 2");
            // What is written is not free, and not set aside any more.
            disk.free -= 20 * ExportRoom.STEP;
            first.check(20 * ExportRoom.STEP);
            assertThatThrownBy(() -> room("SSTable 2", estimate)).isInstanceOf(IOException.class);
            disk.free += 10 * ExportRoom.STEP;
            room("SSTable 2", estimate).close();
        }
        room("SSTable 2", estimate).close();
    }

    @Test
    void whatGrowsBeyondItsEstimateIsGivenUpBeforeTheDiskIsFull() throws IOException {
        disk.free = 10 * ExportRoom.STEP;
        long written = 0;
        try (ExportRoom room = room("SSTable 1", 0)) {
            for (; written < 8 * ExportRoom.STEP; written += ExportRoom.STEP) {
                room.check(written);
                disk.free -= ExportRoom.STEP;
            }
            long reached = written;
            room.check(reached);
            disk.free--;
            room.check(reached + ExportRoom.STEP - 1);
            assertThatThrownBy(() -> room.check(reached + ExportRoom.STEP))
                    .isInstanceOf(IOException.class)
                    .hasMessageContaining("SSTable 1");
        }
        assertThat(disk.free).isPositive();
    }

    private static final class FakeDisk extends FileStore {
        private long free;

        @Override
        public long getUsableSpace() {
            return free;
        }

        @Override
        public String name() {
            return "fake";
        }

        @Override
        public String type() {
            return "fake";
        }

        @Override
        public boolean isReadOnly() {
            return false;
        }

        @Override
        public long getTotalSpace() {
            return free;
        }

        @Override
        public long getUnallocatedSpace() {
            return free;
        }

        @Override
        public boolean supportsFileAttributeView(Class<? extends FileAttributeView> type) {
            return false;
        }

        @Override
        public boolean supportsFileAttributeView(String name) {
            return false;
        }

        @Override
        public <V extends FileStoreAttributeView> @Nullable V getFileStoreAttributeView(
                Class<V> type) {
            return null;
        }

        @Override
        public Object getAttribute(String attribute) {
            throw new UnsupportedOperationException(attribute);
        }
    }
}
