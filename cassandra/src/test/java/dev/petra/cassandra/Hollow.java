// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import org.jspecify.annotations.Nullable;

/** Objects of classes that only a node can construct, with no more in them than a test puts in. */
public final class Hollow {
    private Hollow() {}

    /** Makes one without a constructor: all its fields are null, 0 or false. */
    public static <T> T of(Class<T> type) {
        try {
            // By name: the compiler warns of this class, and a warning fails the build.
            Class<?> unsafe = Class.forName("sun.misc.Unsafe");
            Field instance = unsafe.getDeclaredField("theUnsafe");
            instance.setAccessible(true);
            return type.cast(
                    unsafe.getMethod("allocateInstance", Class.class)
                            .invoke(instance.get(null), type));
        } catch (ReflectiveOperationException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }

    /**
     * Sets a field, also a final one.
     *
     * @param object null for a static field
     * @param type which declares the field
     */
    public static void set(@Nullable Object object, Class<?> type, String field, Object value) {
        try {
            Field found = type.getDeclaredField(field);
            found.setAccessible(true);
            found.set(object, value);
        } catch (ReflectiveOperationException e) {
            throw new LinkageError(e.getMessage(), e);
        }
    }

    /** Makes one of an interface. */
    public static <T> T proxy(Class<T> type, InvocationHandler handler) {
        return type.cast(
                Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
    }
}
