// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import org.rocksdb.RocksDB;

/**
 * Dependencies point one way: host to SPI to nothing of the host; RocksDB is the engine's alone.
 */
@AnalyzeClasses(packages = "dev.petra.engine", importOptions = ImportOption.DoNotIncludeTests.class)
class DependenciesTest {
    @ArchTest
    static final ArchRule theEngineAndTheSpiKnowNothingOfTheHost =
            noClasses()
                    .should()
                    .dependOnClassesThat()
                    .haveFullyQualifiedName("org.apache.cassandra.db.ColumnFamilyStore")
                    .orShould()
                    .dependOnClassesThat()
                    .resideInAnyPackage(
                            "org.apache.cassandra.db.memtable..",
                            "org.apache.cassandra.streaming..",
                            "org.apache.cassandra.service..",
                            "dev.petra.cassandra..");

    /** The purge does not heed them: {@code Database.newIterators} says what to use. */
    @ArchTest
    static final ArchRule nobodyReadsFromASnapshotOfRocksDbs =
            noClasses().should().callMethod(RocksDB.class, "getSnapshot");

    @ArchTest
    static final ArchRule onlyTheEngineNamesRocksDb =
            noClasses()
                    .that()
                    .resideOutsideOfPackage("dev.petra.engine.rocks..")
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("org.rocksdb..");

    @ArchTest
    static final ArchRule onlyStreamingNamesNetty =
            noClasses()
                    .that()
                    .resideOutsideOfPackage("dev.petra.streaming..")
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("io.netty..");
}
