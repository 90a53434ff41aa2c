// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

/** What the agent may use. The order of packages and modules is tested in {@code jmh}. */
@AnalyzeClasses(
        packages = "dev.petra.cassandra",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    @ArchTest
    static final ArchRule ONLY_THE_AGENT_NAMES_BYTE_BUDDY =
            noClasses()
                    .that()
                    .resideOutsideOfPackages("dev.petra.cassandra.agent..")
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("net.bytebuddy..");

    /** Loading the agent must not load a class of Cassandra before it can be woven. */
    @ArchTest
    static final ArchRule THE_AGENT_LOADS_NOTHING_OF_CASSANDRA =
            noClasses()
                    .that()
                    .resideInAPackage("dev.petra.cassandra.agent")
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage("org.apache.cassandra..")
                    .orShould()
                    .dependOnClassesThat(
                            resideInAPackage("dev.petra.cassandra..")
                                    .and(not(resideInAPackage("dev.petra.cassandra.agent"))));

    /**
     * A query that waits for the lock of Cassandra's index manager waits for DROP INDEX, which
     * waits for queries; and all flushes of the node wait for both.
     */
    @ArchTest
    static final ArchRule NO_QUERY_MARKS_LOST_INDEXES =
            noClasses()
                    .that()
                    .doNotHaveFullyQualifiedName("dev.petra.cassandra.index.IndexSweeps")
                    .should()
                    .callMethod(
                            "dev.petra.cassandra.index.StoreIndexes",
                            "markLost",
                            "org.apache.cassandra.db.ColumnFamilyStore");
}
