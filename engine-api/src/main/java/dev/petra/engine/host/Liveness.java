// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.host;

import java.lang.invoke.MethodHandle;
import org.apache.cassandra.db.LivenessInfo;

/**
 * The methods of {@link LivenessInfo}, which is a class in Cassandra 5.0 and an interface in 6.0: a
 * call that is compiled for one of them fails with the other.
 */
public final class Liveness {
    private static final MethodHandle IS_EMPTY = method("isEmpty", boolean.class);
    private static final MethodHandle IS_EXPIRING = method("isExpiring", boolean.class);
    private static final MethodHandle TIMESTAMP = method("timestamp", long.class);
    private static final MethodHandle TTL = method("ttl", int.class);
    private static final MethodHandle EXPIRATION = method("localExpirationTime", long.class);
    private static final MethodHandle CREATE = function("create");
    private static final MethodHandle WITH_EXPIRATION = function("withExpirationTime");

    private Liveness() {}

    private static MethodHandle method(String name, Class<?> returned) {
        return Members.method(LivenessInfo.class, name, returned);
    }

    private static MethodHandle function(String name) {
        return Members.function(
                LivenessInfo.class, name, LivenessInfo.class, long.class, int.class, long.class);
    }

    /** {@code info.isEmpty()}. */
    public static boolean isEmpty(LivenessInfo info) {
        try {
            return (boolean) IS_EMPTY.invokeExact(info);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code info.isExpiring()}. */
    public static boolean isExpiring(LivenessInfo info) {
        try {
            return (boolean) IS_EXPIRING.invokeExact(info);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code info.timestamp()}. */
    public static long timestamp(LivenessInfo info) {
        try {
            return (long) TIMESTAMP.invokeExact(info);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code info.ttl()}. */
    public static int ttl(LivenessInfo info) {
        try {
            return (int) TTL.invokeExact(info);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code info.localExpirationTime()}. */
    public static long localExpirationTime(LivenessInfo info) {
        try {
            return (long) EXPIRATION.invokeExact(info);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code LivenessInfo.create(timestamp, ttl, nowInSec)}. */
    public static LivenessInfo create(long timestamp, int ttl, long nowInSec) {
        try {
            return (LivenessInfo) CREATE.invokeExact(timestamp, ttl, nowInSec);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }

    /** {@code LivenessInfo.withExpirationTime(timestamp, ttl, localExpirationTime)}. */
    public static LivenessInfo withExpirationTime(
            long timestamp, int ttl, long localExpirationTime) {
        try {
            return (LivenessInfo) WITH_EXPIRATION.invokeExact(timestamp, ttl, localExpirationTime);
        } catch (Throwable e) {
            throw Members.unchecked(e);
        }
    }
}
