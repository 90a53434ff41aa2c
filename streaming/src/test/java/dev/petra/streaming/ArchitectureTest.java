// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

@AnalyzeClasses(
        packages = "dev.petra.streaming",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    @ArchTest
    static final ArchRule KNOWS_NO_SESSIONS_AND_NO_ENGINE =
            noClasses()
                    .should()
                    .dependOnClassesThat()
                    .haveNameMatching(".*\\.(StreamSession.*|ColumnFamilyStore|Memtable)")
                    .orShould()
                    .dependOnClassesThat()
                    .resideInAnyPackage(
                            "org.rocksdb..",
                            "dev.petra.engine.rocks..",
                            "dev.petra.engine.legacy..",
                            "dev.petra.cassandra..");

    @ArchTest
    static final ArchRule LAYERS =
            layeredArchitecture()
                    .consideringOnlyDependenciesInLayers()
                    .layer("staging")
                    .definedBy("dev.petra.streaming.staging")
                    .layer("wire")
                    .definedBy("dev.petra.streaming.wire")
                    .whereLayer("staging")
                    .mayNotBeAccessedByAnyLayer()
                    .whereLayer("wire")
                    .mayOnlyBeAccessedByLayers("staging");
}
