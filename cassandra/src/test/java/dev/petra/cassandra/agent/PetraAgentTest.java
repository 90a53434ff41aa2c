// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.instrument.Instrumentation;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class PetraAgentTest {
    /** Says how many weavers the agent adds to the JVM when two options name it. */
    static final class Twice {
        public static void main(String[] arguments) {
            AtomicInteger weavers = new AtomicInteger();
            Instrumentation counting =
                    (Instrumentation)
                            Proxy.newProxyInstance(
                                    Twice.class.getClassLoader(),
                                    new Class<?>[] {Instrumentation.class},
                                    (proxy, method, values) -> {
                                        if (!method.getName().equals("addTransformer"))
                                            throw new UnsupportedOperationException(
                                                    method.getName());
                                        weavers.incrementAndGet();
                                        return null;
                                    });
            for (int time = 0; time < 2; time++) PetraAgent.premain(null, counting);
            System.out.println("weavers: " + weavers);
        }
    }

    /** Each advice was there twice: streams were sent twice, for one. */
    @Test
    void anAgentThatIsNamedTwiceWeavesOnce() throws Exception {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                Twice.class.getName())
                        .redirectErrorStream(true)
                        .start();
        String said =
                new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        assertThat(process.waitFor()).as(said).isZero();
        assertThat(said).contains("named by two -javaagent options").endsWith("weavers: 1");
    }
}
