// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class AllocatorTest {
    private static final String LIBC =
            "7f1c00000000-7f1c00001000 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libc.so.6";
    private static final String JEMALLOC =
            "7f1d00000000-7f1d00001000 r-xp 00000000 08:01 2 /usr/lib/libjemalloc.so.2";

    @Test
    void warnsOfTheAllocatorOfTheCLibraryOnly() {
        assertThat(Allocator.warning(Stream.of(LIBC), null))
                .contains("jemalloc")
                .contains("MALLOC_ARENA_MAX=2");
        assertThat(Allocator.warning(Stream.of(LIBC, JEMALLOC), null)).isNull();
        assertThat(Allocator.warning(Stream.of(LIBC), "2")).isNull();
    }
}
