// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.mutants;

import dev.petra.engine.index.SweepCheck;
import dev.petra.engine.index.TermCursor;
import dev.petra.engine.index.TermEntry;
import dev.petra.engine.index.TermFunction;
import dev.petra.engine.index.TermIndexes;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.cassandra.db.DecoratedKey;
import org.jspecify.annotations.Nullable;

/** Indexes that do what others do: a mutant overrides what it gets wrong. */
class ForwardingIndexes implements TermIndexes {
    final TermIndexes indexes;

    ForwardingIndexes(TermIndexes indexes) {
        this.indexes = indexes;
    }

    @Override
    public Map<UUID, State> states() {
        return indexes.states();
    }

    @Override
    public Set<UUID> lost() {
        return indexes.lost();
    }

    @Override
    public long incarnation(UUID index) {
        return indexes.incarnation(index);
    }

    @Override
    public void define(UUID index) {
        indexes.define(index);
    }

    @Override
    public long setBuilding(UUID index) {
        return indexes.setBuilding(index);
    }

    @Override
    public boolean setBuilt(UUID index, long build) {
        return indexes.setBuilt(index, build);
    }

    @Override
    public void drop(UUID index) {
        indexes.drop(index);
    }

    @Override
    public void removeLeft() {
        indexes.removeLeft();
    }

    @Override
    public void deriveBy(TermFunction function) {
        indexes.deriveBy(function);
    }

    @Override
    public void add(DecoratedKey key, List<TermEntry> entries) {
        indexes.add(key, entries);
    }

    @Override
    public TermCursor scan(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        return indexes.scan(index, from, fromInclusive, to, toInclusive);
    }

    @Override
    public long sweep(UUID index, SweepCheck check) {
        return indexes.sweep(index, check);
    }

    @Override
    public long entries(
            UUID index,
            @Nullable ByteBuffer from,
            boolean fromInclusive,
            @Nullable ByteBuffer to,
            boolean toInclusive) {
        return indexes.entries(index, from, fromInclusive, to, toInclusive);
    }

    @Override
    public long bytes(UUID index) {
        return indexes.bytes(index);
    }
}
