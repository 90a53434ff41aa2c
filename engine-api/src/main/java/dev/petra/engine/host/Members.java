// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.host;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/** Finds public methods of Cassandra's by their names. */
final class Members {
    private static final MethodHandles.Lookup LOOKUP = MethodHandles.publicLookup();

    private Members() {}

    static MethodHandle method(Class<?> type, String name, Class<?> returned) {
        try {
            return LOOKUP.findVirtual(type, name, MethodType.methodType(returned));
        } catch (ReflectiveOperationException e) {
            throw isMissing(type + "." + name, e);
        }
    }

    static MethodHandle function(
            Class<?> type, String name, Class<?> returned, Class<?>... parameters) {
        try {
            return LOOKUP.findStatic(type, name, MethodType.methodType(returned, parameters));
        } catch (ReflectiveOperationException e) {
            throw isMissing(type + "." + name, e);
        }
    }

    private static LinkageError isMissing(String what, ReflectiveOperationException cause) {
        return new LinkageError("this Cassandra has no " + what, cause);
    }

    /** What the methods throw that are called here: none of them has checked exceptions. */
    static RuntimeException unchecked(Throwable thrown) {
        if (thrown instanceof Error error) throw error;
        if (thrown instanceof RuntimeException exception) return exception;
        return new IllegalStateException(thrown);
    }
}
