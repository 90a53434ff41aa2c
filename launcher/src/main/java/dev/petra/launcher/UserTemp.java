// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.time.Instant;

/**
 * Files by which the processes of one user agree. Each user has a directory of their own: of files
 * that another one made first, such as root, nobody else could open any.
 */
public final class UserTemp {
    private UserTemp() {}

    /**
     * Opens a file, to lock it; makes it if it is not there.
     *
     * @throws NodeException if that is not possible; the message says what else can be done
     */
    public static FileChannel open(String file) {
        return open(
                Path.of(System.getProperty("java.io.tmpdir")),
                System.getProperty("user.name"),
                file);
    }

    /** The same, of a certain user. */
    static FileChannel open(Path temporary, String user, String file) {
        Path directory = temporary.resolve("petra-" + user.replaceAll("[^\\w.-]", "_"));
        try {
            Path opened = Files.createDirectories(directory).resolve(file);
            FileChannel channel =
                    FileChannel.open(opened, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
            // A lock changes no time, and what is old in there may be cleaned away.
            Files.setLastModifiedTime(opened, FileTime.from(Instant.now()));
            return channel;
        } catch (IOException e) {
            throw new NodeException(
                    "cannot write in "
                            + directory
                            + ": "
                            + e
                            + ". Remove it, or name another directory for temporary files with"
                            + " JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=…",
                    e);
        }
    }
}
