// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Parameters written by hand, after the specification of the native protocol. */
class LoggedQueryTest {
    private static final int VALUES = 1;
    private static final int PAGE_SIZE = 4;
    private static final int PAGING_STATE = 8;
    private static final int SERIAL = 16;
    private static final int TIMESTAMP = 32;
    private static final int NAMES = 64;
    private static final int KEYSPACE = 128;
    private static final int NOW = 256;

    private final List<ByteBuffer> values = new ArrayList<>();

    private static ByteBuffer begun(int protocol, int flags) {
        ByteBuffer bytes = ByteBuffer.allocate(200).putShort((short) 6);
        return protocol >= 5 ? bytes.putInt(flags) : bytes.put((byte) flags);
    }

    private LoggedQuery.Parameters read(ByteBuffer bytes, int protocol) {
        return LoggedQuery.parameters(bytes.flip(), protocol, values, 7, 8);
    }

    @ParameterizedTest
    @ValueSource(ints = {4, 5})
    void allThatAClientMaySayIsRead(int protocol) {
        int newer = protocol >= 5 ? KEYSPACE | NOW : 0;
        ByteBuffer bytes =
                begun(protocol, VALUES | PAGE_SIZE | PAGING_STATE | SERIAL | TIMESTAMP | newer);
        bytes.putShort((short) 3).putInt(1).put((byte) 9).putInt(-1).putInt(0);
        bytes.putInt(100).putInt(2).put(new byte[] {1, 2}).putShort((short) 8).putLong(55);
        if (newer != 0) bytes.putShort((short) 2).put(new byte[] {'k', 's'}).putInt(-1);
        LoggedQuery.Parameters parameters = read(bytes, protocol);
        assertThat(values).hasSize(3);
        assertThat(values.get(0)).isEqualTo(ByteBuffer.wrap(new byte[] {9}));
        assertThat(values.get(1)).isNull();
        assertThat(values.get(2)).isEqualTo(ByteBuffer.allocate(0));
        assertThat(parameters)
                .isEqualTo(
                        new LoggedQuery.Parameters(
                                newer != 0 ? "ks" : null,
                                100,
                                ByteBuffer.wrap(new byte[] {1, 2}),
                                55,
                                newer != 0 ? 4294967295L : 8));
    }

    @Test
    void whatAClientLeavesOutIsWhatTheNodeTook() {
        assertThat(read(begun(5, 0), 5))
                .isEqualTo(new LoggedQuery.Parameters(null, -1, null, 7, 8));
    }

    @Test
    void valuesByNameAreRefused() {
        assertThatThrownBy(() -> read(begun(5, VALUES | NAMES), 5))
                .hasMessageContaining("values by name");
    }
}
