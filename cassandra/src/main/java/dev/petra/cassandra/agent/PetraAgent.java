// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.IllegalClassFormatException;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.utility.JavaModule;
import org.jspecify.annotations.Nullable;

/**
 * The {@code -javaagent}: weaves {@link JoinPoints} into Cassandra's classes as they are loaded. It
 * loads none of them itself. With a jar that {@link Weaver} has woven it does nothing.
 */
public final class PetraAgent {
    /** The exit code of Cassandra's start-up checks for a wrong configuration. */
    private static final int WRONG_CONFIGURATION = 100;

    private PetraAgent() {}

    /**
     * Called by the JVM before the main class. If a method is missing or the agent fails, it ends
     * the process, because a node without a join point would report work that it has not done. A
     * class that cannot be woven when it is loaded later is reported by {@link Weaving#defect}. The
     * JVM calls this once for each option that names the agent: all but the first do nothing.
     */
    public static void premain(@Nullable String arguments, Instrumentation instrumentation) {
        try {
            // Each advice would be there twice.
            if (Weaving.isInstalled()) {
                System.err.println(
                        "Petra's agent is named by two -javaagent options; the second does"
                                + " nothing, and can be removed.");
                return;
            }
            if (Weaving.isWovenJar()) {
                Weaving.agentIsIdle();
                return;
            }
            ClassFiles cassandra = ClassFiles.of(ClassLoader.getSystemClassLoader());
            String refusal = JoinPoints.refusal(cassandra);
            if (refusal != null) {
                // Without a stack: this is what an operator reads.
                System.err.println(
                        "Petra's agent cannot be installed: "
                                + refusal
                                + " The node does not start; nothing on its disks was read or"
                                + " changed.");
                System.exit(WRONG_CONFIGURATION);
            }
            List<JoinPoint> points = JoinPoints.in(cassandra);
            instrumentation.addTransformer(
                    new Selected(
                            JoinPoints.types(points).stream()
                                    .map(type -> type.replace('.', '/'))
                                    .collect(Collectors.toUnmodifiableSet()),
                            AdviceWeaver.builder(
                                            points,
                                            AgentBuilder.LocationStrategy.ForClassLoader.STRONG,
                                            new Listener(JoinPoints.types(points)))
                                    .makeRaw()));
            Weaving.installed(
                    JoinPoints.types(points),
                    Fingerprints.known().compare(cassandra, Release.of(cassandra)));
        } catch (RuntimeException | LinkageError e) {
            System.err.println("Petra's agent cannot be installed: " + e.getMessage());
            e.printStackTrace();
            System.exit(WRONG_CONFIGURATION);
        }
    }

    /**
     * Passes only classes that have join points on to Byte Buddy. A starting node loads thousands
     * of others; matching each of them in Byte Buddy takes a quarter of the start-up time.
     */
    private record Selected(Set<String> names, ClassFileTransformer weaver)
            implements ClassFileTransformer {
        @Override
        public byte @Nullable [] transform(
                @Nullable ClassLoader loader,
                @Nullable String name,
                @Nullable Class<?> redefined,
                @Nullable ProtectionDomain domain,
                byte[] file)
                throws IllegalClassFormatException {
            return name != null && names.contains(name)
                    ? weaver.transform(loader, name, redefined, domain, file)
                    : null;
        }
    }

    /** Records which classes were woven and which failed, for the start-up check. */
    private static final class Listener extends AgentBuilder.Listener.Adapter {
        private final List<String> types;

        Listener(List<String> types) {
            this.types = types;
        }

        @Override
        public void onTransformation(
                TypeDescription type,
                @Nullable ClassLoader loader,
                @Nullable JavaModule module,
                boolean loaded,
                DynamicType result) {
            Weaving.woven(type.getName());
        }

        @Override
        public void onError(
                String type,
                @Nullable ClassLoader loader,
                @Nullable JavaModule module,
                boolean loaded,
                Throwable failure) {
            if (types.contains(type)) Weaving.failed(type, failure);
        }
    }
}
