// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import dev.petra.engine.rocks.db.FileExtent;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Java and C++ share the fields of two structs: each by its name, where the other has it. */
class StateLayoutTest {
    @Test
    void everyFieldOfAStateIsWhereTheNativePartHasIt() throws IllegalAccessException {
        try (StorageEngine engine = Tables.engine()) {
            assertThat(engine.name()).isNotEmpty();
            Map<String, Integer> ours = constants(Reconciler.class, 1);
            // The last field is the last thing in it: Java knows them all.
            ours.put("size", Collections.max(ours.values()) + Long.BYTES);
            assertThat(ours).isEqualTo(fields(Reconciler.stateLayout()));
        }
    }

    @Test
    void everyFieldOfAnExtentIsWhereTheNativePartHasIt() throws IllegalAccessException {
        try (StorageEngine engine = Tables.engine()) {
            assertThat(engine.name()).isNotEmpty();
            assertThat(constants(FileExtent.class, Long.BYTES))
                    .isEqualTo(fields(Reconciler.extentLayout()));
        }
    }

    private static Map<String, Integer> fields(String layout) {
        Map<String, Integer> fields = new TreeMap<>();
        for (String field : layout.split(" ", -1)) {
            String[] words = field.split("=", -1);
            fields.put(words[0], Integer.parseInt(words[1]));
        }
        return fields;
    }

    private static Map<String, Integer> constants(Class<?> of, int unit)
            throws IllegalAccessException {
        Map<String, Integer> constants = new TreeMap<>();
        for (Field field : of.getDeclaredFields())
            if (field.getType() == int.class && Modifier.isStatic(field.getModifiers()))
                constants.put(camelCase(field.getName()), unit * at(field));
        return constants;
    }

    private static int at(Field field) throws IllegalAccessException {
        field.setAccessible(true);
        return field.getInt(null);
    }

    private static String camelCase(String constant) {
        StringBuilder name = new StringBuilder();
        for (String word : constant.split("_", -1))
            name.append(word.charAt(0)).append(word.toLowerCase(Locale.ROOT), 1, word.length());
        name.setCharAt(0, Character.toLowerCase(name.charAt(0)));
        return name.toString();
    }
}
