// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests.crash.agent;

import static net.bytebuddy.matcher.ElementMatchers.isAbstract;
import static net.bytebuddy.matcher.ElementMatchers.isNative;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.none;
import static net.bytebuddy.matcher.ElementMatchers.not;

import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.IllegalClassFormatException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.ProtectionDomain;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.pool.TypePool;

/**
 * Ends a node like kill -9 where it enters or leaves a method, or holds a thread there. Which
 * methods can be chosen is the agent's argument: {@code <class>#<method>} with spaces between.
 * Which one is chosen is in the file {@code -Dcrash.at}, which can be written at any time: {@code
 * enter <class>#<method>} or {@code leave <class>#<method>}, with {@code hold} before it for a
 * thread that is to stay there until the file says something else, with {@code fail} before it for
 * an exception there, once; several lines of these two are for several places. Where threads are
 * held is said by the file {@code <crash.at>.held}, a line for each.
 */
public final class CrashAgent {
    private CrashAgent() {}

    /** Called by the JVM. */
    public static void premain(String arguments, Instrumentation instrumentation) {
        AgentBuilder agent =
                new AgentBuilder.Default()
                        .disableClassFormatChanges()
                        .with(AgentBuilder.TypeStrategy.Default.DECORATE)
                        // What is ignored by default is found out by reading each class.
                        .ignore(none());
        Set<String> types = new HashSet<>();
        TypePool classes = TypePool.Default.ofSystemLoader();
        for (String point : arguments.split(" ", -1)) {
            String[] parts = point.split("#", -1);
            if (!isThere(classes, parts[0], parts[1]))
                throw new IllegalArgumentException(
                        "The crash point "
                                + point
                                + " names no method with code: was the method or its class"
                                + " renamed?");
            types.add(parts[0].replace('.', '/'));
            agent =
                    agent.type(named(parts[0]))
                            .transform(
                                    (builder, type, loader, module, domain) ->
                                            builder.visit(
                                                    Advice.to(Points.class).on(named(parts[1]))));
        }
        instrumentation.addTransformer(new Selected(types, agent.makeRaw()));
    }

    /** Otherwise nothing would happen there, and the test would wait for it in vain. */
    static boolean isThere(TypePool classes, String type, String method) {
        TypePool.Resolution found = classes.describe(type);
        return found.isResolved()
                && !found.resolve()
                        .getDeclaredMethods()
                        .filter(named(method).and(not(isAbstract())).and(not(isNative())))
                        .isEmpty();
    }

    /** Byte Buddy sees these classes only: of all that a node loads it takes a second. */
    private record Selected(Set<String> types, ClassFileTransformer points)
            implements ClassFileTransformer {
        @Override
        public byte[] transform(
                ClassLoader loader,
                String name,
                Class<?> redefined,
                ProtectionDomain domain,
                byte[] file)
                throws IllegalClassFormatException {
            return types.contains(name)
                    ? points.transform(loader, name, redefined, domain, file)
                    : null;
        }
    }

    /** At a point. */
    public static void reach(String what, String type, String method) {
        try {
            Path file = Path.of(System.getProperty("crash.at"));
            String here = what + " " + type + "#" + method;
            String chosen = chosen(file);
            String hold = "hold " + here;
            if (chosen.lines().anyMatch(hold::equals)) {
                Files.writeString(
                        Path.of(file + ".held"),
                        here + "\n",
                        StandardOpenOption.CREATE,
                        StandardOpenOption.APPEND);
                while (chosen(file).lines().anyMatch(hold::equals)) TimeUnit.MILLISECONDS.sleep(5);
                return;
            }
            String fail = "fail " + here;
            if (chosen.lines().anyMatch(fail::equals)) {
                replace(file, chosen.lines().filter(line -> !line.equals(fail)).toList());
                throw new IllegalArgumentException("Fails on purpose: " + here);
            }
            if (!chosen.equals(here)) return;
            Files.delete(file);
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
        Runtime.getRuntime().halt(137);
    }

    /** Those that are held must not see half of it, and go on. */
    private static void replace(Path file, List<String> left) throws IOException {
        if (left.isEmpty()) {
            Files.delete(file);
            return;
        }
        Path next = Path.of(file + ".left");
        Files.writeString(next, String.join("\n", left));
        Files.move(next, file, StandardCopyOption.ATOMIC_MOVE);
    }

    private static String chosen(Path file) throws IOException {
        try {
            return Files.exists(file) ? Files.readString(file) : "";
        } catch (NoSuchFileException e) {
            return "";
        }
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
