// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.Architectures;
import java.util.List;
import java.util.stream.IntStream;

@AnalyzeClasses(
        packages = "dev.petra.cassandra",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    /** Nor Netty: what goes over connections is written and read in {@code streaming}. */
    @ArchTest
    static final ArchRule NAMES_NO_ENGINE =
            noClasses()
                    .should()
                    .dependOnClassesThat()
                    .resideInAnyPackage("org.rocksdb..", "dev.petra.engine.rocks..", "io.netty..");

    @ArchTest
    static final ArchRule NO_CYCLE_BETWEEN_PACKAGES =
            slices().matching("dev.petra.(**)").should().beFreeOfCycles();

    /** From the top: each package knows only those below it. */
    private static final List<List<String>> LAYERS =
            List.of(
                    List.of("agent.advice"),
                    List.of("hooks"),
                    List.of(""),
                    List.of("repair", "nodetool", "metrics", "bulkload"),
                    List.of("streaming"),
                    List.of("migration"),
                    List.of("index"),
                    List.of("table", "sstable"),
                    List.of("engine", "disk", "commitlog"),
                    List.of("agent"));

    @ArchTest
    static final ArchRule EACH_PACKAGE_IS_IN_A_LAYER =
            classes()
                    .should()
                    .resideInAnyPackage(
                            LAYERS.stream()
                                    .flatMap(List::stream)
                                    .map(ArchitectureTest::inFull)
                                    .toArray(String[]::new));

    @ArchTest
    static void layersKnowOnlyThoseBelow(JavaClasses classes) {
        Architectures.LayeredArchitecture architecture =
                layeredArchitecture().consideringOnlyDependenciesInLayers();
        for (int layer = 0; layer < LAYERS.size(); layer++)
            architecture =
                    architecture
                            .layer(name(layer))
                            .definedBy(
                                    LAYERS.get(layer).stream()
                                            .map(ArchitectureTest::inFull)
                                            .toArray(String[]::new));
        for (int layer = 0; layer < LAYERS.size(); layer++)
            architecture =
                    layer == 0
                            ? architecture.whereLayer(name(layer)).mayNotBeAccessedByAnyLayer()
                            : architecture
                                    .whereLayer(name(layer))
                                    .mayOnlyBeAccessedByLayers(
                                            IntStream.range(0, layer)
                                                    .mapToObj(ArchitectureTest::name)
                                                    .toArray(String[]::new));
        architecture.check(classes);
    }

    private static String name(int layer) {
        return String.valueOf(LAYERS.get(layer));
    }

    private static String inFull(String name) {
        return name.isEmpty() ? "dev.petra.cassandra" : "dev.petra.cassandra." + name;
    }

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
}
