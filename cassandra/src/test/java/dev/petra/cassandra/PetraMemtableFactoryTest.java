// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.cassandra.engine.EngineKey;
import dev.petra.engine.EngineSettings;
import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.Config;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.InheritingClass;
import org.apache.cassandra.schema.MemtableParams;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** How the engines of {@code cassandra.yaml} are found. */
class PetraMemtableFactoryTest {
    private static final String BROKEN = "a_broken";
    private static final String ROCKS = "rocks_of_this_test";

    private final PetraMemtableFactory rocks =
            new PetraMemtableFactory(new EngineKey("rocks", new EngineSettings(Map.of())));
    private Config.MemtableOptions before;

    @BeforeEach
    void configure() throws ReflectiveOperationException {
        DatabaseDescriptor.clientInitialization(false);
        Config config = DatabaseDescriptor.getRawConfig();
        before = config.memtable;
        config.memtable = new Config.MemtableOptions();
        config.memtable.configurations = new LinkedHashMap<>();
        for (String name : List.of(BROKEN, ROCKS))
            config.memtable.configurations.put(
                    name, new InheritingClass(null, "not.There", Map.of()));
        MemtableParams made = Hollow.of(MemtableParams.class);
        Hollow.set(made, MemtableParams.class, "factory", rocks);
        Hollow.set(made, MemtableParams.class, "configurationKey", ROCKS);
        read().put(ROCKS, made);
    }

    @AfterEach
    void asBefore() throws ReflectiveOperationException {
        DatabaseDescriptor.getRawConfig().memtable = before;
        read().remove(ROCKS);
    }

    /** Those that Cassandra has read. */
    @SuppressWarnings("unchecked")
    private static Map<String, MemtableParams> read() throws ReflectiveOperationException {
        Field all = MemtableParams.class.getDeclaredField("CONFIGURATIONS");
        all.setAccessible(true);
        return (Map<String, MemtableParams>) all.get(null);
    }

    /** Else a table could not leave its engine, nor the node start while one does. */
    @Test
    void aConfigurationThatCannotBeUsedIsPassedOver() {
        assertThat(PetraMemtableFactory.named(BROKEN)).isNull();
        assertThat(rocks.configuration()).isEqualTo(ROCKS);
        assertThat(PetraMemtableFactory.any()).isEqualTo(rocks);
    }

    /** A table that names it may be in an engine: it must not be migrated out by another. */
    @Test
    void aConfigurationThatCannotBeUsedIsNotOneOfCassandras() {
        assertThat(PetraMemtableFactory.isUsable(BROKEN)).isFalse();
        assertThat(PetraMemtableFactory.isUsable("not there")).isFalse();
        assertThat(PetraMemtableFactory.isUsable(ROCKS)).isTrue();
        assertThat(PetraMemtableFactory.isUsable("default")).isTrue();
    }
}
