// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.util.List;

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

    @Override
    public String toString() {
        return type + "." + method + "(" + String.join(", ", parameters) + ")";
    }
}
