// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;
import org.apache.cassandra.io.FSWriteError;

/**
 * A disk that fails at one step, and at every later one, as for a process that died there. A write
 * that fails leaves half its bytes.
 */
public final class CrashingDisk implements Disk {
    private final int failing;
    private final boolean recovers;
    private int steps;

    private CrashingDisk(int failing, boolean recovers) {
        this.failing = failing;
        this.recovers = recovers;
    }

    /** Dies at a step, counted from 0. */
    public static CrashingDisk at(int step) {
        return new CrashingDisk(step, false);
    }

    /** Fails at one step only. */
    public static CrashingDisk onceAt(int step) {
        return new CrashingDisk(step, true);
    }

    /** How many steps were taken or tried. */
    int steps() {
        return steps;
    }

    private boolean fails() {
        int step = steps++;
        return recovers ? step == failing : step >= failing;
    }

    @Override
    public void createDirectory(Path directory) throws IOException {
        if (fails()) throw new IOException("crash in createDirectory");
        REAL.createDirectory(directory);
    }

    @Override
    public void write(Path file, byte[] content) throws IOException {
        if (fails()) {
            REAL.write(file, java.util.Arrays.copyOf(content, content.length / 2));
            throw new IOException("crash in write");
        }
        REAL.write(file, content);
    }

    @Override
    public void rename(Path from, Path to) throws IOException {
        if (fails()) throw new IOException("crash in rename");
        REAL.rename(from, to);
    }

    /** One that fails leaves some of the files of a directory. */
    @Override
    public void delete(Path tree) {
        if (fails()) {
            IOException crash = new IOException("crash in delete");
            try {
                if (Files.isDirectory(tree))
                    try (Stream<Path> files = Files.list(tree)) {
                        files.findFirst().ifPresent(REAL::delete);
                    }
            } catch (IOException e) {
                crash.addSuppressed(e);
            }
            throw new FSWriteError(crash, tree.toString());
        }
        REAL.delete(tree);
    }

    @Override
    public void syncDirectory(Path directory) throws IOException {
        if (fails()) throw new IOException("crash in syncDirectory");
        REAL.syncDirectory(directory);
    }
}
