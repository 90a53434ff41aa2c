// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.container;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import org.apache.cassandra.utils.Clock;

/**
 * Ahead of the true time, for a node with {@code -Dcassandra.clock}. By less than the timeouts of
 * requests: a node counts the age of what it gets by its own clock.
 */
public final class SkewedClock implements Clock {
    private static final long MILLIS_AHEAD = 700;

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public long currentTimeMillis() {
        return System.currentTimeMillis() + MILLIS_AHEAD;
    }

    /** This class alone, for the class path of a node. */
    static byte[] jar() {
        String name = SkewedClock.class.getName().replace('.', '/') + ".class";
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (JarOutputStream jar = new JarOutputStream(bytes);
                InputStream code = SkewedClock.class.getResourceAsStream("/" + name)) {
            jar.putNextEntry(new JarEntry(name));
            code.transferTo(jar);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return bytes.toByteArray();
    }
}
