// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.constructors;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import com.tngtech.archunit.library.Architectures.LayeredArchitecture;
import dev.petra.engine.rocks.read.Cursor;
import java.util.List;

/** The engine's packages, in one order. */
@AnalyzeClasses(
        packages = "dev.petra.engine.rocks",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    /** From above to below: each may use all that are behind it. */
    private static final List<String> LAYERS =
            List.of(
                    "",
                    "stream",
                    "compaction",
                    "index",
                    "write",
                    "read",
                    "db",
                    "wal",
                    "nativelib",
                    "format");

    private static final String ROOT = "dev.petra.engine.rocks";

    @ArchTest static final ArchRule layersInOneOrder = layers();

    private static ArchRule layers() {
        LayeredArchitecture layers =
                layeredArchitecture().consideringOnlyDependenciesInAnyPackage(ROOT + "..");
        for (String name : LAYERS)
            layers = layers.layer(layer(name)).definedBy(name.isEmpty() ? ROOT : ROOT + "." + name);
        layers = layers.whereLayer(layer("")).mayNotBeAccessedByAnyLayer();
        for (int i = 1; i < LAYERS.size(); i++)
            layers =
                    layers.whereLayer(layer(LAYERS.get(i)))
                            .mayOnlyBeAccessedByLayers(
                                    LAYERS.subList(0, i).stream()
                                            .map(ArchitectureTest::layer)
                                            .toArray(String[]::new));
        return layers.ensureAllClassesAreContainedInArchitecture();
    }

    private static String layer(String name) {
        return name.isEmpty() ? "root" : name;
    }

    @ArchTest
    static final ArchRule noCycleBetweenPackages =
            slices().matching(ROOT + ".(*)..").should().beFreeOfCycles();

    /** Else a reader could decode rows by columns of a moment before the one that it reads. */
    @ArchTest
    static final ArchRule whoeverDecodesOpensItsCursorByItsContext =
            constructors().that().areDeclaredIn(Cursor.class).should().bePackagePrivate();
}
