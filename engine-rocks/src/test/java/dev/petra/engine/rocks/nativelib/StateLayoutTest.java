// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.nativelib;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.rocks.Tables;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Collections;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** Java and C++ share the fields of one struct: each by its name, where the other has it. */
class StateLayoutTest {
    @Test
    void everyFieldIsWhereTheNativePartHasIt() throws IllegalAccessException {
        try (StorageEngine engine = Tables.engine()) {
            assertThat(engine.name()).isNotEmpty();
            Map<String, Integer> theirs = new TreeMap<>();
            for (String field : Reconciler.layout().split(" ", -1)) {
                String[] words = field.split("=", -1);
                theirs.put(words[0], Integer.parseInt(words[1]));
            }
            Map<String, Integer> ours = new TreeMap<>();
            for (Field field : Reconciler.class.getDeclaredFields())
                if (field.getType() == int.class && Modifier.isStatic(field.getModifiers()))
                    ours.put(camelCase(field.getName()), at(field));
            // The last field is the last thing in it: Java knows them all.
            assertThat(theirs.remove("size"))
                    .isEqualTo(Collections.max(ours.values()) + Long.BYTES);
            assertThat(ours).isEqualTo(theirs);
        }
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
