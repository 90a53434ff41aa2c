// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.matcher.ElementMatchers;

/** Configures Byte Buddy to weave join points, the same for the agent and for the jar. */
final class AdviceWeaver {
    private AdviceWeaver() {}

    /**
     * Configures a transformer that weaves join points into the class files it is given.
     *
     * @param cassandra where Byte Buddy finds the classes that a woven class refers to
     * @param listener learns which classes were woven, and which could not be
     */
    static AgentBuilder builder(
            List<JoinPoint> points,
            AgentBuilder.LocationStrategy cassandra,
            AgentBuilder.Listener listener) {
        AgentBuilder builder =
                new AgentBuilder.Default()
                        // Only method bodies may change: no fields or methods are added.
                        .disableClassFormatChanges()
                        .ignore(ElementMatchers.none())
                        .with(cassandra)
                        .with(listener);
        for (String type : JoinPoints.types(points)) {
            AgentBuilder.Transformer.ForAdvice advice =
                    new AgentBuilder.Transformer.ForAdvice()
                            .with(cassandra)
                            .include(AdviceWeaver.class.getClassLoader());
            for (JoinPoint point : points)
                // The advice is given by name: loading its class would load the classes of
                // Cassandra in its signatures before they can be woven.
                if (point.type().equals(type))
                    advice = advice.advice(point.matcher(), point.advice());
            builder = builder.type(ElementMatchers.named(type)).transform(advice);
        }
        return builder;
    }
}
