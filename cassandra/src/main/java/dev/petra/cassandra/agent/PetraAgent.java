// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import dev.petra.cassandra.AgentState;
import java.lang.instrument.Instrumentation;
import java.util.ArrayList;
import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.description.type.TypeDescription;
import net.bytebuddy.dynamic.DynamicType;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;
import net.bytebuddy.pool.TypePool;
import net.bytebuddy.utility.JavaModule;
import org.jspecify.annotations.Nullable;

/**
 * The entry of {@code -javaagent}: weaves {@link JoinPoints} into Cassandra's classes as they are
 * loaded. Loads none of them itself.
 */
public final class PetraAgent {
    /** As Cassandra's start-up checks exit on a wrong configuration. */
    private static final int WRONG_CONFIGURATION = 100;

    private PetraAgent() {}

    /**
     * Called by the JVM before the main class. Whatever is wrong ends the process here: a node that
     * ran without a join point would report work that it has not done.
     */
    public static void premain(@Nullable String arguments, Instrumentation instrumentation) {
        try {
            List<String> missing = missingMethods();
            if (!missing.isEmpty())
                throw new IllegalStateException(
                        "this Cassandra has no "
                                + String.join(", no ", missing)
                                + ". Petra for Cassandra 5.0 knows the releases of its"
                                + " compatibility table only");
            install(instrumentation);
            AgentState.installed(JoinPoints.types());
        } catch (RuntimeException | LinkageError e) {
            System.err.println("Petra's agent cannot be installed: " + e.getMessage());
            e.printStackTrace();
            System.exit(WRONG_CONFIGURATION);
        }
    }

    /** The join points whose method is not in Cassandra's class files. */
    static List<String> missingMethods() {
        TypePool classes = TypePool.Default.ofSystemLoader();
        List<String> missing = new ArrayList<>();
        for (String type : JoinPoints.types()) {
            TypePool.Resolution found = classes.describe(type);
            if (!found.isResolved()) {
                missing.add(type);
                continue;
            }
            TypeDescription description = found.resolve();
            JoinPoints.of(type)
                    .filter(
                            point ->
                                    description.getDeclaredMethods().filter(method(point)).size()
                                            != 1)
                    .forEach(point -> missing.add(point.toString()));
        }
        return missing;
    }

    private static void install(Instrumentation instrumentation) {
        AgentBuilder builder =
                new AgentBuilder.Default()
                        // Only method bodies change, which is all that is needed, and safest.
                        .disableClassFormatChanges()
                        .ignore(ElementMatchers.none())
                        .with(new Listener());
        for (String type : JoinPoints.types()) {
            AgentBuilder.Transformer.ForAdvice advice =
                    new AgentBuilder.Transformer.ForAdvice()
                            .include(PetraAgent.class.getClassLoader());
            for (JoinPoint point : JoinPoints.of(type).toList())
                // By name: a loaded advice class would load the classes in its signature.
                advice = advice.advice(method(point), point.advice());
            builder = builder.type(ElementMatchers.named(type)).transform(advice);
        }
        builder.installOn(instrumentation);
    }

    private static ElementMatcher.Junction<MethodDescription> method(JoinPoint point) {
        return ElementMatchers.<MethodDescription>hasMethodName(point.method())
                .and(ElementMatchers.takesArguments(point.parameters().size()))
                .and(
                        method -> {
                            for (int i = 0; i < point.parameters().size(); i++)
                                if (!method.getParameters()
                                        .get(i)
                                        .getType()
                                        .asErasure()
                                        .getName()
                                        .equals(point.parameters().get(i))) return false;
                            return true;
                        });
    }

    /** Keeps book of what was woven, for the start-up check. */
    private static final class Listener extends AgentBuilder.Listener.Adapter {
        @Override
        public void onTransformation(
                TypeDescription type,
                @Nullable ClassLoader loader,
                @Nullable JavaModule module,
                boolean loaded,
                DynamicType result) {
            AgentState.woven(type.getName());
        }

        @Override
        public void onError(
                String type,
                @Nullable ClassLoader loader,
                @Nullable JavaModule module,
                boolean loaded,
                Throwable failure) {
            if (JoinPoints.types().contains(type)) AgentState.failed(type, failure);
        }
    }
}
