// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.TestTables;
import dev.petra.engine.TableStore;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.utils.ByteBufferUtil;
import org.junit.jupiter.api.Test;

class ShadowTest {
    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final ShadowFactory factory =
            ShadowFactory.consume(new HashMap<>(Map.of("engine", "rocks")), false);

    ShadowTest() {
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", TestTables.reference());
    }

    /** ALTER to a shadow, back, to a shadow, back, and to a shadow before the first is deleted. */
    @Test
    void aThirdShadowWaitsForTheFirst() {
        Shadow first = new Shadow(cfs, factory, null);
        Shadow second = new Shadow(cfs, factory, first);
        Shadow third = new Shadow(cfs, factory, second);
        first.end();
        second.end();

        assertThat(second.step()).isNotNull();
        assertThat(second.isGone()).isFalse();
        assertThat(third.step()).isNotNull();
        assertThat(third.state()).contains("waits until the former shadow is deleted");

        assertThat(first.step()).isNull();
        assertThat(second.step()).isNull();
        assertThat(second.isGone()).isTrue();
    }

    /** It may have missed what came since. */
    @Test
    void whatIsTakenIntoItsTableIsNoShadowAnyMore() {
        Shadow shadow = new Shadow(cfs, factory, null);
        ShadowCopy copy =
                new ShadowCopy(
                        cfs,
                        (TableStore)
                                Proxy.newProxyInstance(
                                        getClass().getClassLoader(),
                                        new Class<?>[] {TableStore.class},
                                        (proxy, method, arguments) -> null),
                        1,
                        new LateWrites(),
                        () -> new LateWrites.Moment(0, 0));
        Hollow.set(shadow, Shadow.class, "copy", copy);
        assertThat(shadow.become(factory)).isTrue();

        shadow.promote();
        assertThat(shadow.become(factory)).isFalse();
        assertThat(shadow.promotedCopy()).isSameAs(copy);
        assertThat(copy.isOver()).isFalse();

        // By another ALTER: it was sealed for the one before.
        shadow.promote();
        assertThat(copy.isOver()).isTrue();
    }

    /** Those of a shadow that could not note them; here no directory can be found. */
    @Test
    void aShadowHasTheDifferencesOfTheOneBefore() {
        Shadow first = new Shadow(cfs, factory, null);
        for (int i = 0; i < 2; i++)
            first.count(
                    cfs.decorateKey(ByteBufferUtil.bytes(i)),
                    new Comparison.Outcome(Comparison.Result.DIFFERENT, "row", "1", ""));
        first.end();
        Shadow second = new Shadow(cfs, factory, first);
        second.recall();
        assertThat(second.statistics().different.sum()).isEqualTo(2);

        second.end();
        second.forget();
        Shadow third = new Shadow(cfs, factory, second);
        third.recall();
        // Whether there are any on disk cannot be read.
        assertThat(third.statistics().different.sum()).isEqualTo(1);
    }
}
