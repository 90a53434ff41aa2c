// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.constructors;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;
import dev.petra.engine.rocks.read.Cursor;
import org.rocksdb.RocksDB;

/** How the engine reads. The order of packages and modules is tested in {@code jmh}. */
@AnalyzeClasses(
        packages = "dev.petra.engine.rocks",
        importOptions = ImportOption.DoNotIncludeTests.class)
class ArchitectureTest {
    /** Else a reader could decode rows by columns of a moment before the one that it reads. */
    @ArchTest
    static final ArchRule whoeverDecodesOpensItsCursorByItsContext =
            constructors().that().areDeclaredIn(Cursor.class).should().bePackagePrivate();

    /** The purge does not heed them: {@code Database.newIterators} says what to use. */
    @ArchTest
    static final ArchRule nobodyReadsFromASnapshotOfRocksDbs =
            noClasses().should().callMethod(RocksDB.class, "getSnapshot");
}
