// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.db;

import dev.petra.engine.index.TermIndexes.State;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * The indexes of a store: under {@code index/<number>} in its catalog are the index's id and how
 * far it is. A number is never given again, so that what a write left of a dropped index is none of
 * another's; an index that is dropped and defined again, which has the same id, has another number.
 */
public final class IndexCatalog {
    static final String KEY = "index/";

    private static final String DROPPING = "dropping";
    private static final String DROPPED = "dropped";

    /** What writes an entry of the catalog, synced. */
    interface Entries {
        void put(String key, String value);
    }

    private record Defined(int number, State state) {}

    private final Entries catalog;

    /** Another map at each change. */
    private volatile Map<UUID, Defined> defined = Map.of();

    /** The states of the {@link #defined} indexes; set after that. */
    private volatile Map<UUID, State> states = Map.of();

    /** Those that were defined once and are not now; another set at each change. */
    private volatile Set<UUID> dropped = Set.of();

    /** The indexes being dropped, whose entries may be there; another map at each change. */
    private volatile Map<Integer, UUID> leftovers = Map.of();

    /** Guarded by this, which is held while an entry waits for a store that takes no writes. */
    private int next;

    /**
     * @param found the catalog's entries, by what is behind {@link #KEY}
     */
    IndexCatalog(Entries catalog, Map<String, String> found) {
        this.catalog = catalog;
        Map<UUID, Defined> all = new HashMap<>();
        Set<UUID> gone = new HashSet<>();
        Map<Integer, UUID> left = new HashMap<>();
        found.forEach(
                (key, value) -> {
                    int number = Integer.parseInt(key);
                    String[] parts = value.split(" ", 2);
                    UUID index = UUID.fromString(parts[0]);
                    next = Math.max(next, number + 1);
                    if (parts[1].equals(DROPPING)) left.put(number, index);
                    if (parts[1].equals(DROPPING) || parts[1].equals(DROPPED)) gone.add(index);
                    else
                        all.put(
                                index,
                                new Defined(
                                        number, State.valueOf(parts[1].toUpperCase(Locale.ROOT))));
                });
        gone.removeAll(all.keySet());
        defined(all);
        dropped = Set.copyOf(gone);
        leftovers = Map.copyOf(left);
    }

    private void defined(Map<UUID, Defined> all) {
        defined = Map.copyOf(all);
        Map<UUID, State> each = new HashMap<>();
        all.forEach((index, one) -> each.put(index, one.state));
        states = Map.copyOf(each);
    }

    /** Whether none is defined. */
    public boolean isEmpty() {
        return defined.isEmpty();
    }

    /** The numbers of those that are defined. */
    public Map<UUID, Integer> numbers() {
        Map<UUID, Integer> numbers = new HashMap<>();
        defined.forEach((index, one) -> numbers.put(index, one.number));
        return numbers;
    }

    public Map<UUID, State> states() {
        return states;
    }

    /**
     * The number of a defined index.
     *
     * @throws IllegalArgumentException if it is not defined
     */
    public int number(UUID index) {
        Defined found = defined.get(index);
        if (found == null) throw undefined(index);
        return found.number;
    }

    /**
     * The same for who writes entries.
     *
     * @return less than 0 if it was dropped
     * @throws IllegalArgumentException if it was never defined
     */
    public int numberToWrite(UUID index) {
        Defined found = defined.get(index);
        if (found != null) return found.number;
        if (dropped.contains(index)) return -1;
        // It was dropped and is defined again, between the two looks.
        return number(index);
    }

    private static IllegalArgumentException undefined(UUID index) {
        return new IllegalArgumentException("Index " + index + " is not defined in this store.");
    }

    /** Whether it is defined, or was. */
    public boolean isKnown(UUID index) {
        return dropped.contains(index) || defined.containsKey(index);
    }

    public synchronized void define(UUID index) {
        if (defined.containsKey(index)) return;
        put(next, index, State.BUILDING);
        next++;
        Set<UUID> others = new HashSet<>(dropped);
        others.remove(index);
        dropped = Set.copyOf(others);
    }

    public synchronized void setState(UUID index, State state) {
        put(number(index), index, state);
    }

    private void put(int number, UUID index, State state) {
        put(number, index, state.name().toLowerCase(Locale.ROOT));
        Map<UUID, Defined> all = new HashMap<>(defined);
        all.put(index, new Defined(number, state));
        defined(all);
    }

    private void put(int number, UUID index, String state) {
        catalog.put(KEY + number, index + " " + state);
    }

    /** No entry of it is written or found from now on, but those that are there remain. */
    public synchronized void drop(UUID index) {
        Defined found = defined.get(index);
        if (found == null) return;
        put(found.number, index, DROPPING);
        Set<UUID> more = new HashSet<>(dropped);
        more.add(index);
        dropped = Set.copyOf(more);
        Map<Integer, UUID> left = new HashMap<>(leftovers);
        left.put(found.number, index);
        Map<UUID, Defined> others = new HashMap<>(defined);
        others.remove(index);
        defined(others);
        // Last: what is left is removed, and nobody is to find its number then.
        leftovers = Map.copyOf(left);
    }

    /** The numbers of dropped indexes whose entries may still be there. */
    public List<Integer> leftovers() {
        return new ArrayList<>(leftovers.keySet());
    }

    /** The entries were removed, and no write that knew the number is under way. */
    public synchronized void removed(int number) {
        UUID index = leftovers.get(number);
        if (index == null) return;
        put(number, index, DROPPED);
        Map<Integer, UUID> others = new HashMap<>(leftovers);
        others.remove(number);
        leftovers = Map.copyOf(others);
    }
}
