// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.util.List;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.matcher.ElementMatchers;

/** What the agent and the weaver have in common: how the join points get into classes. */
final class AdviceWeaver {
    private AdviceWeaver() {}

    /**
     * Makes what changes class files.
     *
     * @param points what is woven
     * @param cassandra where the classes are found that those of the join points name
     */
    static AgentBuilder builder(
            List<JoinPoint> points,
            AgentBuilder.LocationStrategy cassandra,
            AgentBuilder.Listener listener) {
        AgentBuilder builder =
                new AgentBuilder.Default()
                        // Only method bodies change, which is all that is needed, and safest.
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
                // By name: a loaded advice class would load the classes in its signature.
                if (point.type().equals(type))
                    advice = advice.advice(point.matcher(), point.advice());
            builder = builder.type(ElementMatchers.named(type)).transform(advice);
        }
        return builder;
    }
}
