// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.function.Consumer;

/** Every way in which one bit of a small file can be wrong. */
final class FlippedBits {
    private FlippedBits() {}

    /** Checks the file with each of its bits flipped, and leaves it as it was. */
    static void ofEach(Path file, Consumer<Path> check) throws IOException {
        byte[] content = Files.readAllBytes(file);
        for (int bit = 0; bit < content.length * 8; bit++) {
            byte[] flipped = content.clone();
            flipped[bit / 8] ^= (byte) (1 << (bit % 8));
            Files.write(file, flipped);
            check.accept(file);
        }
        Files.write(file, content);
    }
}
