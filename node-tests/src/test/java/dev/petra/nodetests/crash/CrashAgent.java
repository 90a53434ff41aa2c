// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash;

import static net.bytebuddy.matcher.ElementMatchers.named;

import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;

/**
 * Ends a node like kill -9 where it enters or leaves a method. Which methods can be chosen is the
 * agent's argument: {@code <class>#<method>} with spaces between. Which one is chosen is in the
 * file {@code -Dcrash.at}, which can be written at any time: {@code enter <class>#<method>} or
 * {@code leave <class>#<method>}.
 */
public final class CrashAgent {
    private CrashAgent() {}

    /** Called by the JVM. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder agent =
                new AgentBuilder.Default()
                        .disableClassFormatChanges()
                        .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION);
        for (String point : arguments.split(" ", -1)) {
            String[] parts = point.split("#", -1);
            agent =
                    agent.type(named(parts[0]))
                            .transform(
                                    (builder, type, loader, module, domain) ->
                                            builder.visit(
                                                    Advice.to(Points.class).on(named(parts[1]))));
        }
        agent.installOn(instrumentation);
    }

    /** At a point. */
    public static void reach(String what, String type, String method) {
        try {
            Path file = Path.of(System.getProperty("crash.at"));
            if (!Files.exists(file)) return;
            if (!Files.readString(file).equals(what + " " + type + "#" + method)) return;
            Files.delete(file);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
        Runtime.getRuntime().halt(137);
    }

    static final class Points {
        private Points() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.Origin("#t") String type, @Advice.Origin("#m") String method) {
            CrashAgent.reach("enter", type, method);
        }

        @Advice.OnMethodExit
        static void leave(@Advice.Origin("#t") String type, @Advice.Origin("#m") String method) {
            CrashAgent.reach("leave", type, method);
        }
    }
}
