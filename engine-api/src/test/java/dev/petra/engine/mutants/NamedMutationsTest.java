// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import static org.assertj.core.api.Assertions.assertThat;

import dev.petra.engine.StorageEngine;
import dev.petra.engine.TableStore;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** What has no name is tried neither by random histories nor behind a shadow. */
final class NamedMutationsTest {
    private static final Pattern CAPITAL = Pattern.compile("([A-Z])");

    /** They show only at one moment of a purge or a write, or in a row, that examples choose. */
    private static final Set<String> OF_EXAMPLES =
            Set.of(
                    "purges-though-forbidden",
                    "purges-under-readers",
                    "writes-row-by-row",
                    // Of what loses-tombstones-in-compaction loses, which is on the list.
                    "loses-row-deletions-in-compaction");

    @Test
    void everyMutationHasAName() {
        Set<String> named = new TreeSet<>(NamedMutations.ofRows());
        named.addAll(NamedMutations.ofSomeTables());
        named.addAll(NamedMutations.ofIndexes());
        named.addAll(OF_EXAMPLES);
        assertThat(mutations()).isEqualTo(named);
    }

    /** By the names that they should have. */
    private static Set<String> mutations() {
        Set<String> all = new TreeSet<>();
        for (Field field : Mutations.class.getDeclaredFields())
            if (!Modifier.isPrivate(field.getModifiers()) && isMutation(field.getType(), 0))
                all.add(field.getName().toLowerCase(Locale.ROOT).replace('_', '-'));
        for (Method method : Mutations.class.getDeclaredMethods())
            if (!Modifier.isPrivate(method.getModifiers())
                    && isMutation(method.getReturnType(), method.getParameterCount()))
                all.add(
                        CAPITAL.matcher(method.getName())
                                .replaceAll("-$1")
                                .toLowerCase(Locale.ROOT));
        return all;
    }

    /** What makes one of something else has a parameter more. */
    private static boolean isMutation(Class<?> type, int parameters) {
        return type.equals(UnaryOperator.class)
                ? parameters == 0
                : parameters == 1
                        && (type.equals(TableStore.class) || type.equals(StorageEngine.class));
    }
}
