// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.jar.asm.Type;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * One method of Cassandra and what is woven into it. All by name, so that nothing of Cassandra is
 * loaded before the agent is in place.
 *
 * @param type the class
 * @param method the method's name
 * @param parameters its parameters' types, as {@link Class#getName()} writes them
 * @param advice the class whose body is copied into it
 */
record JoinPoint(String type, String method, List<String> parameters, String advice) {
    JoinPoint {
        parameters = List.copyOf(parameters);
    }

    /** Matches its method among those of the class. */
    ElementMatcher.Junction<MethodDescription> matcher() {
        return ElementMatchers.<MethodDescription>hasMethodName(method)
                .and(found -> isAt(found.getInternalName(), found.getDescriptor()));
    }

    /** Whether this is its method, as a class file names it. */
    boolean isAt(String name, String descriptor) {
        if (!name.equals(method)) return false;
        Type[] found = Type.getArgumentTypes(descriptor);
        if (found.length != parameters.size()) return false;
        for (int i = 0; i < found.length; i++)
            if (!className(found[i]).equals(parameters.get(i))) return false;
        return true;
    }

    private static String className(Type type) {
        return type.getSort() == Type.ARRAY
                ? type.getDescriptor().replace('/', '.')
                : type.getClassName();
    }

    @Override
    public String toString() {
        return type + "." + method + "(" + String.join(", ", parameters) + ")";
    }
}
