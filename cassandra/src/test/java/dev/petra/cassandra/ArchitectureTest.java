// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.simpleName;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

@AnalyzeClasses(
        packages = "dev.petra.cassandra",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    @ArchTest
    static final ArchRule NAMES_NO_ENGINE =
            noClasses()
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage("org.rocksdb..", "dev.petra.engine.rocks..");

    @ArchTest
    static final ArchRule ONLY_THE_AGENT_NAMES_BYTE_BUDDY =
            noClasses()
                    .that()
                    .resideInAPackage("dev.petra.cassandra")
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("net.bytebuddy..");

    /** Loading the agent must not load a class of Cassandra before it can be woven. */
    @ArchTest
    static final ArchRule THE_AGENT_LOADS_NOTHING_OF_CASSANDRA =
            noClasses()
                    .that()
                    .haveSimpleName("PetraAgent")
                    .or()
                    .haveSimpleName("AgentState")
                    .or()
                    .haveSimpleNameStartingWith("JoinPoint")
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage("org.apache.cassandra..")
                    .orShould()
                    .dependOnClassesThat(
                            resideInAPackage("dev.petra.cassandra")
                                    .and(not(simpleName("AgentState"))));
}
