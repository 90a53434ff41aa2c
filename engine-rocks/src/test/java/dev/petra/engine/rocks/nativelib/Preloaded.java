// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Libraries that take the place of functions of libc, by {@code LD_PRELOAD}. */
public final class Preloaded {
    private Preloaded() {}

    /**
     * Compiles one of {@code src/test/native}.
     *
     * @param name of its source, without {@code .cpp}
     * @return the library, in the directory
     */
    public static Path compile(String name, Path directory)
            throws IOException, InterruptedException {
        String compiler = System.getenv().getOrDefault("CXX", "g++");
        Path library = directory.resolve(name + ".so");
        Path output = directory.resolve("compiler");
        Process compiling =
                new ProcessBuilder(
                                compiler,
                                "-shared",
                                "-fPIC",
                                "-Wall",
                                "-Wextra",
                                "-Werror",
                                "-o",
                                library.toString(),
                                Path.of("src/test/native", name + ".cpp").toAbsolutePath() + "")
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        assertThat(compiling.waitFor()).as(Files.readString(output)).isZero();
        return library;
    }
}
