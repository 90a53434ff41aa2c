// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.migration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import dev.petra.cassandra.Hollow;
import dev.petra.cassandra.HollowMemtable;
import dev.petra.cassandra.PetraMemtableFactory;
import dev.petra.cassandra.TestTables;
import dev.petra.cassandra.engine.EngineKey;
import dev.petra.cassandra.migration.TableLifecycle.Waiting;
import dev.petra.cassandra.shadow.PromotedShadow;
import dev.petra.cassandra.shadow.ShadowSource;
import dev.petra.cassandra.table.TableGenerations;
import dev.petra.engine.EngineSettings;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.db.lifecycle.Tracker;
import org.apache.cassandra.index.SecondaryIndexManager;
import org.apache.cassandra.schema.MemtableParams;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadataRef;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How a shadow becomes its table's store, as far as that needs no node. */
class TakeoverTest {
    private static final EngineKey ENGINE = new EngineKey("rocks", new EngineSettings(Map.of()));

    static {
        assertThat(TestTables.reference()).isNotNull();
        // What throttles as compactions needs these.
        DatabaseDescriptor.setConcurrentCompactors(1);
        DatabaseDescriptor.setConcurrentValidations(1);
        DatabaseDescriptor.setConcurrentViewBuilders(1);
    }

    private final ColumnFamilyStore cfs = Hollow.of(ColumnFamilyStore.class);
    private final ConcurrentMap<TableId, ColumnFamilyStore> tables = new ConcurrentHashMap<>();
    private PromotedShadow shadow;
    private Takeover takeover;

    /** A table whose schema says the engine, and whose memtable is Cassandra's. */
    @BeforeEach
    void create() {
        MemtableParams params = Hollow.of(MemtableParams.class);
        Hollow.set(params, MemtableParams.class, "factory", new PetraMemtableFactory(ENGINE));
        Hollow.set(params, MemtableParams.class, "configurationKey", "rocks");
        TableMetadataRef metadata =
                TableMetadataRef.forOfflineTools(
                        TestTables.table("CREATE TABLE t (p int PRIMARY KEY, v int)")
                                .unbuild()
                                .memtable(params)
                                .build());
        Keyspace keyspace = Hollow.of(Keyspace.class);
        Hollow.set(keyspace, Keyspace.class, "columnFamilyStores", tables);
        tables.put(metadata.id, cfs);
        SecondaryIndexManager indexes = Hollow.of(SecondaryIndexManager.class);
        Hollow.set(indexes, SecondaryIndexManager.class, "indexes", new ConcurrentHashMap<>());
        Tracker tracker = Tracker.newDummyTracker();
        tracker.reset(HollowMemtable.cassandras());
        Hollow.set(cfs, ColumnFamilyStore.class, "keyspace", keyspace);
        Hollow.set(cfs, ColumnFamilyStore.class, "metadata", metadata);
        Hollow.set(cfs, ColumnFamilyStore.class, "name", "t");
        Hollow.set(cfs, ColumnFamilyStore.class, "data", tracker);
        Hollow.set(cfs, ColumnFamilyStore.class, "indexManager", indexes);
        Hollow.set(cfs, ColumnFamilyStore.class, "valid", true);
        shadow = new PromotedShadow(cfs);
        takeover = new Takeover(cfs, ENGINE, shadow.source());
    }

    @AfterEach
    void close() {
        shadow.close();
    }

    private CompletableFuture<Void> preparing() {
        CompletableFuture<Void> preparing = CompletableFuture.runAsync(takeover::prepare);
        assertThatThrownBy(() -> preparing.get(2, TimeUnit.SECONDS))
                .isInstanceOf(TimeoutException.class);
        assertThat(shadow.calls()).containsExactly("verify");
        return preparing;
    }

    /** The table was migrated from its SSTables if one had come while the files were verified. */
    @Test
    void whatAStreamHasJustBroughtIsWaitedFor() {
        shadow.isCaughtUp(false);
        CompletableFuture<Void> preparing = preparing();
        shadow.isCaughtUp(true);
        // What comes next is the store, for which this one has no directory.
        assertThatThrownBy(() -> preparing.get(1, TimeUnit.MINUTES))
                .hasMessageContaining("a copy has a folder");
        assertThat(shadow.calls()).containsExactly("verify", "syncLog");
    }

    @Test
    void whatAStreamHasBroughtIsNotWaitedForWhenTheTableIsDropped() {
        shadow.isCaughtUp(false);
        CompletableFuture<Void> preparing = preparing();
        tables.clear();
        assertThatThrownBy(() -> preparing.get(1, TimeUnit.MINUTES))
                .hasMessageContaining("the table was altered or dropped");
        assertThat(shadow.calls()).containsExactly("verify");
    }

    @Test
    void whatAStreamBringsIsNotWaitedForForEver() {
        shadow.isCaughtUp(false);
        takeover.catchUpPatience = Duration.ZERO;
        assertThatThrownBy(takeover::prepare).hasMessage("it does not have all of the table");
        assertThat(shadow.calls()).containsExactly("verify");
    }

    private Waiting waiting() {
        List<Waiting> all = new ArrayList<>();
        TableLifecycle.forEachWaiting(all::add);
        return all.stream().filter(each -> each.cfs() == cfs).findFirst().orElseThrow();
    }

    /** It said for hours that it could not begin, and no number changed. */
    @Test
    void anOperatorSeesHowFarTheFilesAreVerified() {
        Takeover.all.put(cfs, takeover);
        try {
            long all = PromotedShadow.FILES * PromotedShadow.FILE_BYTES;
            String state = "its shadow becomes its store";
            assertThat(waiting())
                    .isEqualTo(new Waiting(cfs, state + ", after that of another table", 0, all));
            takeover.state = Takeover.State.WORKING;
            List<Waiting> seen = new ArrayList<>();
            shadow.afterFile(() -> seen.add(waiting()));
            shadow.isCaughtUp(false);
            takeover.catchUpPatience = Duration.ZERO;
            assertThatThrownBy(takeover::prepare).hasMessage("it does not have all of the table");
            String verified = state + ", whose files are being verified";
            assertThat(seen)
                    .containsExactly(
                            new Waiting(cfs, verified, 1_000, 2_000L),
                            new Waiting(cfs, verified, 2_000, 1_000L),
                            new Waiting(cfs, verified, 3_000, 0L));
            assertThat(waiting()).isEqualTo(new Waiting(cfs, state, all, 0L));
        } finally {
            Takeover.all.remove(cfs);
        }
    }

    /** What is in its way is told, and not how far its shadow is. */
    @Test
    void aTableThatCannotGoInSaysWhy() {
        Takeover.all.put(cfs, takeover);
        try {
            // Whatever its text is.
            for (String reason : List.of("the disk is full", Takeover.STATE)) {
                TableLifecycle.waits(cfs, reason);
                assertThat(waiting())
                        .isEqualTo(new Waiting(cfs, "could not begin yet: " + reason, 0, null));
            }
        } finally {
            TableLifecycle.letIn(cfs);
            Takeover.all.remove(cfs);
        }
    }

    /** Each line of the table in {@link Takeover.State}. */
    @ParameterizedTest
    @CsvSource({
        "WAITING, true, false",
        "WORKING, true, true",
        "FAILED, true, true",
        "TAKEN, true, true",
        "ENDING, false, true",
        "OVER, false, false"
    })
    void whatATableMayDoMeanwhile(Takeover.State state, boolean goesOn, boolean isAtWork) {
        Takeover.all.put(cfs, takeover);
        try {
            takeover.state = state;
            assertThat(takeover.isGoingOn()).isEqualTo(goesOn);
            assertThat(Takeover.hasRefused(cfs)).isEqualTo(!goesOn);
            assertThat(catchThrowable(() -> Takeover.requireClosed(cfs)) != null)
                    .isEqualTo(isAtWork);
        } finally {
            Takeover.all.remove(cfs);
        }
    }

    /** Its store is deleted then. */
    @Test
    void nothingIsTakenThatIsBeingGivenUp(@TempDir Path table) {
        Hollow.set(
                takeover, Takeover.class, "stores", TestTables.withoutEngine(cfs.metadata, table));
        Hollow.set(takeover, Takeover.class, "expected", Set.of());
        takeover.state = Takeover.State.ENDING;
        assertThat(takeover.take()).isNull();
        assertThat(shadow.calls()).isEmpty();
    }

    /** It would be given up, and the table's store deleted. */
    @Test
    void whatWasTakenStaysSoIfItFailsToBeTakenOnceMore() {
        // It has no migration that could begin.
        Hollow.set(takeover, Takeover.class, "stores", Hollow.of(TableGenerations.class));
        Hollow.set(takeover, Takeover.class, "expected", Set.of());
        takeover.state = Takeover.State.TAKEN;
        assertThatThrownBy(takeover::take).isInstanceOf(NullPointerException.class);
        assertThat(takeover.state).isEqualTo(Takeover.State.TAKEN);
    }

    /** Nobody else knew of them when the table was altered out and back. */
    @Test
    void theTablesStoresKnowOfTheWritesOfTheShadow(@TempDir Path table) {
        TableGenerations stores = TestTables.withoutEngine(cfs.metadata, table);
        Hollow.set(takeover, Takeover.class, "stores", stores);
        Hollow.set(takeover, Takeover.class, "expected", Set.of());
        assertThat(takeover.take()).isSameAs(stores);
        Runnable write = shadow.beginWrite();
        assertThat(stores.isWrittenByOthers()).isTrue();
        ShadowSource.end(cfs);
        assertThat(stores.isWrittenByOthers()).isTrue();
        write.run();
        assertThat(stores.isWrittenByOthers()).isFalse();
        // The migration that has begun ends with its next step, as by an ALTER back.
        assertThat(stores.migration().begin("rocks")).isEqualTo(2);
    }
}
