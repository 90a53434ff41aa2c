// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.belongToAnyOf;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.Location;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.junit.LocationProvider;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The order of the modules, and of the packages in them. Looks at the classes of all modules that a
 * node or the benchmark runs, which the build has compiled before those of this one.
 */
@AnalyzeClasses(locations = ArchitectureTest.Modules.class)
class ArchitectureTest {
    /** From above to below: each may use those behind it, unless a rule says less. */
    private static final List<String> MODULES =
            List.of(
                    "jmh",
                    "launcher",
                    "cassandra",
                    "engine-rocks",
                    "engine-legacy",
                    "streaming",
                    "engine-api");

    /** Of {@code cassandra}, from above to below: each knows only those behind its own line. */
    private static final List<List<String>> CASSANDRA =
            List.of(
                    List.of("agent.advice"),
                    List.of("hooks"),
                    List.of(""),
                    List.of("repair", "nodetool", "metrics", "bulkload"),
                    List.of("streaming"),
                    List.of("migration", "shadow"),
                    List.of("index"),
                    List.of("table", "sstable"),
                    List.of("engine", "disk", "commitlog", "gossip"),
                    List.of("host"),
                    List.of("agent"));

    /** Of {@code engine-rocks}. */
    private static final List<List<String>> ENGINE_ROCKS =
            List.of(
                    List.of(""),
                    List.of("stream"),
                    List.of("compaction"),
                    List.of("index"),
                    List.of("write"),
                    List.of("read"),
                    List.of("db"),
                    List.of("wal"),
                    List.of("nativelib"),
                    List.of("format"));

    /** Of {@code streaming}. */
    private static final List<List<String>> STREAMING =
            List.of(List.of("staging"), List.of("wire"));

    /** Where their classes are. */
    static final class Modules implements LocationProvider {
        @Override
        public Set<Location> get(Class<?> test) {
            return MODULES.stream().map(Modules::classes).collect(Collectors.toSet());
        }

        private static Location classes(String module) {
            return Location.of(Path.of("..", module, "target", "classes"));
        }
    }

    private static DescribedPredicate<JavaClass> in(String module) {
        String path = "/" + module + "/target/classes/";
        return describe(
                "in " + module,
                type ->
                        type.getSource()
                                .map(source -> source.getUri().toString().contains(path))
                                .orElse(false));
    }

    /** Without this, a module that was not compiled would keep every rule. */
    @ArchTest
    static void allModulesAreLookedAt(JavaClasses classes) {
        for (String module : MODULES) assertThat(classes.that(in(module))).as(module).isNotEmpty();
    }

    @ArchTest
    static final ArchRule DEPENDENCIES_BETWEEN_MODULES_RUN_ONE_WAY =
            modules()
                    .whereLayer("jmh")
                    .mayNotBeAccessedByAnyLayer()
                    .whereLayer("launcher")
                    .mayOnlyBeAccessedByLayers("jmh")
                    .whereLayer("cassandra")
                    .mayNotBeAccessedByAnyLayer()
                    .whereLayer("engine-rocks")
                    .mayNotBeAccessedByAnyLayer()
                    .whereLayer("engine-legacy")
                    .mayOnlyBeAccessedByLayers("jmh")
                    .whereLayer("streaming")
                    .mayOnlyBeAccessedByLayers("cassandra", "jmh")
                    .whereLayer("engine-api")
                    .mayOnlyBeAccessedByLayers(
                            "jmh", "cassandra", "engine-rocks", "engine-legacy", "streaming");

    private static LayeredArchitecture modules() {
        LayeredArchitecture layers = layeredArchitecture().consideringOnlyDependenciesInLayers();
        for (String module : MODULES) layers = layers.layer(module).definedBy(in(module));
        return layers;
    }

    @ArchTest
    static final ArchRule NO_CYCLE_BETWEEN_PACKAGES =
            slices().matching("dev.petra.(**)").should().beFreeOfCycles();

    @ArchTest
    static final ArchRule PACKAGES_OF_CASSANDRA =
            layers("cassandra", "dev.petra.cassandra", CASSANDRA);

    @ArchTest
    static final ArchRule PACKAGES_OF_ENGINE_ROCKS =
            layers("engine-rocks", "dev.petra.engine.rocks", ENGINE_ROCKS);

    @ArchTest
    static final ArchRule PACKAGES_OF_STREAMING =
            layers("streaming", "dev.petra.streaming", STREAMING);

    /** Each class of the module is in a layer, which only those before it use. */
    private static ArchRule layers(String module, String root, List<List<String>> packages) {
        LayeredArchitecture layers =
                layeredArchitecture().consideringOnlyDependenciesInAnyPackage(root + "..");
        for (List<String> layer : packages)
            layers =
                    layers.layer(layer.toString())
                            .definedBy(
                                    layer.stream()
                                            .map(name -> name.isEmpty() ? root : root + "." + name)
                                            .toArray(String[]::new));
        layers = layers.whereLayer(packages.get(0).toString()).mayNotBeAccessedByAnyLayer();
        for (int i = 1; i < packages.size(); i++)
            layers =
                    layers.whereLayer(packages.get(i).toString())
                            .mayOnlyBeAccessedByLayers(
                                    packages.subList(0, i).stream()
                                            .map(List::toString)
                                            .toArray(String[]::new));
        return layers.ensureAllClassesAreContainedInArchitectureIgnoring(not(in(module)))
                .as("packages of " + module + " know only those below them");
    }

    @ArchTest
    static final ArchRule ENGINES_AND_STREAMS_KNOW_NOTHING_OF_THE_HOST =
            noClasses()
                    .that(in("engine-api").or(in("streaming")).or(in("engine-rocks")))
                    .should()
                    .dependOnClassesThat()
                    .haveNameMatching(
                            "org\\.apache\\.cassandra\\..*\\.(StreamSession.*|ColumnFamilyStore)")
                    .orShould()
                    .dependOnClassesThat()
                    .resideInAnyPackage(
                            "org.apache.cassandra.db.memtable..", "org.apache.cassandra.service..");

    /** Of Cassandra's streaming, {@code streaming} uses the interfaces of a connection only. */
    @ArchTest
    static final ArchRule ENGINES_KNOW_NOTHING_OF_SESSIONS =
            noClasses()
                    .that(in("engine-api").or(in("engine-rocks")))
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("org.apache.cassandra.streaming..");

    /** The benchmark measures RocksDB without an engine, as the floor. */
    @ArchTest
    static final ArchRule ONLY_ENGINE_ROCKS_NAMES_ROCKSDB =
            noClasses()
                    .that(not(in("engine-rocks")).and(not(belongToAnyOf(BareAccess.class))))
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("org.rocksdb..");

    /** A release has {@code petra replay}, and not JMH, whose licence is another. */
    @ArchTest
    static final ArchRule WHAT_REPLAYS_NAMES_NOTHING_OF_JMH =
            noClasses()
                    .that(
                            not(belongToAnyOf(
                                            Bench.class,
                                            Measurement.class,
                                            StallProfiler.class,
                                            StoreBenchmark.class,
                                            StreamBenchmark.class))
                                    .and(not(resideInAPackage("..jmh_generated.."))))
                    .should()
                    .dependOnClassesThat(resideInAPackage("org.openjdk.jmh.."));

    /**
     * At the levels spi and local a benchmark is in the node's JVM, which has no launcher: to load
     * a class that only throws an exception of the launcher's fails there.
     */
    @ArchTest
    static final ArchRule WHAT_RUNS_IN_A_NODE_DOES_NOT_NAME_THE_LAUNCHER =
            noClasses()
                    .that(
                            belongToAnyOf(
                                    Access.class,
                                    Backlog.class,
                                    BareAccess.class,
                                    EmbeddedNode.class,
                                    Gap.class,
                                    LocalAccess.class,
                                    MemoryLimit.class,
                                    OpenLoop.class,
                                    Probe.class,
                                    Quiet.class,
                                    ReadCheck.class,
                                    Requests.class,
                                    SpiAccess.class,
                                    StallProfiler.class,
                                    Stalls.class,
                                    Tail.class,
                                    Timeline.class,
                                    WarmUp.class,
                                    Workload.class,
                                    Written.class))
                    .should()
                    .dependOnClassesThat()
                    .resideInAPackage("dev.petra.launcher..");

    @ArchTest
    static final ArchRule ONLY_STREAMING_NAMES_NETTY =
            noClasses()
                    .that(not(in("streaming")))
                    .should()
                    .dependOnClassesThat(resideInAPackage("io.netty.."));
}
