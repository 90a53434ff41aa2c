// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.jar.asm.Type;
import net.bytebuddy.matcher.ElementMatcher;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * One method of Cassandra and the advice that is woven into it. All are names, not {@link Class}
 * objects: a class of Cassandra that is loaded before the agent is in place could not be woven.
 *
 * @param type the name of the class that has the method
 * @param method the method's name, {@code <init>} for a constructor
 * @param parameters the types of the method's parameters, as {@link Class#getName()} writes them
 * @param advice the name of the class whose code is copied into the method
 */
record JoinPoint(String type, String method, List<String> parameters, String advice) {
    JoinPoint {
        parameters = List.copyOf(parameters);
    }

    /** Matches this join point's method among the methods of its class. */
    ElementMatcher.Junction<MethodDescription> matcher() {
        return ElementMatchers.<MethodDescription>hasMethodName(method)
                .and(found -> isAt(found.getInternalName(), found.getDescriptor()));
    }

    /** Whether a method with this name and descriptor, as in a class file, is the join point's. */
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
