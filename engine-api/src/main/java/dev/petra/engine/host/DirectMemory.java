// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.host;

import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.cassandra.io.util.FileUtils;
import org.apache.cassandra.utils.memory.MemoryUtil;

/** Frees direct buffers: {@code FileUtils.clean} in Cassandra 5.0, {@code MemoryUtil} in 6.0. */
public final class DirectMemory {
    private static final MethodHandle CLEAN = clean();

    private DirectMemory() {}

    private static MethodHandle clean() {
        boolean isIn50 =
                Arrays.stream(FileUtils.class.getMethods())
                        .anyMatch(method -> method.getName().equals("clean"));
        return Members.function(
                isIn50 ? FileUtils.class : MemoryUtil.class, "clean", void.class, ByteBuffer.class);
    }

    /**
     * Frees the memory of a buffer that was made by {@link ByteBuffer#allocateDirect} at once: the
     * JVM frees it only by collecting the heap. Nobody may use the buffer any more.
     */
    public static void free(ByteBuffer buffer) {
        try {
            CLEAN.invokeExact(buffer);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }
}
