// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.Label;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class WeaverTest {
    private static final String STORE = "org.apache.cassandra.db.ColumnFamilyStore";
    private static final String DAEMON = "org.apache.cassandra.service.CassandraDaemon";
    private static final String VERSION = "org/apache/cassandra/config/version.properties";

    @TempDir Path directory;

    /** Whether weaving succeeded or was refused, no {@code .part} file may be left. */
    @AfterEach
    void nothingHalfIsLeft() throws IOException {
        try (var files = Files.list(directory)) {
            assertThat(files.map(Path::toString)).noneMatch(name -> name.endsWith(".part"));
        }
    }

    private static Map<String, byte[]> content(Path jar) throws IOException {
        Map<String, byte[]> content = new LinkedHashMap<>();
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (ZipEntry entry : Collections.list(zip.entries()))
                try (InputStream in = zip.getInputStream(entry)) {
                    content.put(entry.getName(), in.readAllBytes());
                }
        }
        return content;
    }

    private Path jar(String name, Map<String, byte[]> content) throws IOException {
        Path jar = directory.resolve(name);
        try (OutputStream file = Files.newOutputStream(jar);
                ZipOutputStream out = new ZipOutputStream(file)) {
            for (Map.Entry<String, byte[]> entry : content.entrySet()) {
                out.putNextEntry(new ZipEntry(entry.getKey()));
                out.write(entry.getValue());
            }
        }
        return jar;
    }

    /** The files of a release that weaving changes or looks at. */
    private static Map<String, byte[]> small(Path release) throws IOException {
        Map<String, byte[]> all = content(release);
        Set<String> kept = new HashSet<>(Set.of(VERSION, ClassFiles.path(DAEMON)));
        for (JoinPoint point : JoinPoints.ALL) kept.add(ClassFiles.path(point.type()));
        all.keySet().retainAll(kept);
        return all;
    }

    /** A small jar of the release that this build compiles with, after a change. */
    private Path cassandra(String name, Consumer<Map<String, byte[]>> change) throws IOException {
        Map<String, byte[]> content = small(KnownReleases.own());
        change.accept(content);
        return jar(name, content);
    }

    private Path out() {
        return directory.resolve("woven.jar");
    }

    private static String refusal(Path in, Path out) {
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        int exitCode =
                WeaveCommand.run(
                        new PrintStream(new ByteArrayOutputStream(), true, StandardCharsets.UTF_8),
                        new PrintStream(err, true, StandardCharsets.UTF_8),
                        "--in",
                        in.toString(),
                        "--out",
                        out.toString());
        assertThat(exitCode).isEqualTo(1);
        return err.toString(StandardCharsets.UTF_8);
    }

    private String refusal(Path in) {
        String refusal = refusal(in, out());
        assertThat(out()).doesNotExist();
        return refusal;
    }

    /** The methods whose code differs between two versions of a class file. */
    private static Set<String> changedMethods(byte[] before, byte[] after) {
        Map<String, String> old = methods(before);
        Set<String> changed = new TreeSet<>();
        methods(after)
                .forEach(
                        (method, code) -> {
                            if (!code.equals(old.get(method))) changed.add(method);
                        });
        return changed;
    }

    private static Map<String, String> methods(byte[] file) {
        Map<String, String> methods = new HashMap<>();
        String name = new ClassReader(file).getClassName();
        new ClassReader(file)
                .accept(
                        new ClassVisitor(Opcodes.ASM9) {
                            @Override
                            public MethodVisitor visitMethod(
                                    int access,
                                    String method,
                                    String descriptor,
                                    @Nullable String signature,
                                    String @Nullable [] exceptions) {
                                ClassWriter alone = new ClassWriter(0);
                                alone.visit(Opcodes.V11, 0, name, null, "java/lang/Object", null);
                                MethodVisitor code =
                                        alone.visitMethod(access, method, descriptor, null, null);
                                return new MethodVisitor(Opcodes.ASM9, code) {
                                    @Override
                                    public void visitEnd() {
                                        methods.put(
                                                method + descriptor,
                                                Fingerprint.of(alone.toByteArray()));
                                    }
                                };
                            }
                        },
                        ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
        return methods;
    }

    @Test
    void theMethodsOfTheJoinPointsAreWovenAndNothingElse() throws Exception {
        Path stock = KnownReleases.own();
        WovenJar woven = Weaver.weave(stock, out(), false);
        Map<String, byte[]> before = content(stock);
        Map<String, byte[]> after = content(out());
        assertThat(woven.original().changed()).isEmpty();
        assertThat(woven.defect(KnownReleases.classes(out()))).isNull();
        assertThat(after.keySet()).startsWith(before.keySet().toArray(String[]::new));
        assertThat(after).hasSize(before.size() + 1).containsKey(WovenJar.FILE);
        int methods = 0;
        for (Map.Entry<String, byte[]> entry : before.entrySet()) {
            byte[] now = after.get(entry.getKey());
            if (java.util.Arrays.equals(entry.getValue(), now)) continue;
            String type = entry.getKey().replace('/', '.').replaceFirst("\\.class$", "");
            for (String method : changedMethods(entry.getValue(), now)) {
                int at = method.indexOf('(');
                assertThat(JoinPoints.ALL)
                        .as(type + " " + method)
                        .anyMatch(
                                point ->
                                        point.type().equals(type)
                                                && point.isAt(
                                                        method.substring(0, at),
                                                        method.substring(at)));
                methods++;
            }
        }
        assertThat(methods).isEqualTo(JoinPoints.ALL.size());
    }

    @Test
    void theSameJarBecomesTheSameBytes() throws Exception {
        Path stock = cassandra("stock.jar", content -> {});
        Path again = directory.resolve("again.jar");
        Weaver.weave(stock, out(), false);
        // A copy of a jar may have another modification time; the result is the same.
        Files.setLastModifiedTime(stock, java.nio.file.attribute.FileTime.fromMillis(0));
        Weaver.weave(stock, again, false);
        assertThat(again).hasSameBinaryContentAs(out());
        // Another user than the one who wove the jar may run the node.
        assertThat(Files.getPosixFilePermissions(again))
                .isEqualTo(Files.getPosixFilePermissions(stock));
    }

    /** It takes the place of the other, which a node of another user or group may read. */
    @Test
    void theJarHasThePermissionsOfTheOther() throws Exception {
        Path stock = cassandra("stock.jar", content -> {});
        Files.setPosixFilePermissions(stock, PosixFilePermissions.fromString("r--rw-r--"));
        Weaver.weave(stock, out(), false);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(out())))
                .isEqualTo("r--rw-r--");
    }

    /** By Ctrl-C it left what it had written so far. */
    @Test
    void aWeaverThatIsEndedLeavesNothingHalf() throws Exception {
        Process weaver =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                WeaveCommand.class.getName(),
                                "--in",
                                KnownReleases.own().toString(),
                                "--out",
                                out().toString())
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .start();
        while (weaver.isAlive() && isEmpty(directory)) TimeUnit.MILLISECONDS.sleep(1);
        assertThat(isEmpty(directory)).as("it has begun").isFalse();
        weaver.destroy();
        weaver.waitFor();
    }

    private static boolean isEmpty(Path directory) throws IOException {
        try (var files = Files.list(directory)) {
            return files.findAny().isEmpty();
        }
    }

    @Test
    void everyKnownReleaseIsWoven() throws Exception {
        for (Map.Entry<String, Path> release : KnownReleases.jars().entrySet()) {
            Path in = jar("in-" + release.getKey() + ".jar", small(release.getValue()));
            Path out = directory.resolve("out-" + release.getKey() + ".jar");
            WovenJar woven = Weaver.weave(in, out, false);
            assertThat(woven.release()).isEqualTo(release.getKey());
            assertThat(woven.original().changed()).isEmpty();
            ClassFiles classes = KnownReleases.classes(out);
            assertThat(woven.classes().keySet())
                    .containsExactlyInAnyOrderElementsOf(JoinPoints.types(JoinPoints.in(classes)));
            assertThat(woven.defect(classes)).isNull();
            assertThat(WovenJar.find(classes)).isEqualTo(woven);
        }
    }

    @Test
    void aJarIsNotWovenTwice() throws Exception {
        Path woven = directory.resolve("once.jar");
        Weaver.weave(cassandra("stock.jar", content -> {}), woven, false);
        assertThat(refusal(woven)).contains(woven + " is woven already").contains("the original");
    }

    @Test
    void whatIsNotCassandraIsRefused() throws IOException {
        Path other = jar("other.jar", Map.of("a/B.class", new byte[] {1}));
        assertThat(refusal(other)).contains(other + " is not Cassandra");
        Path text = Files.writeString(directory.resolve("text.jar"), "text");
        assertThat(refusal(text)).contains(text + " is no whole jar");
        assertThat(refusal(directory.resolve("none.jar"))).contains("is no file");
    }

    @Test
    void aHalfJarIsRefused() throws IOException {
        byte[] whole = Files.readAllBytes(cassandra("whole.jar", content -> {}));
        Path half = directory.resolve("half.jar");
        Files.write(half, java.util.Arrays.copyOf(whole, whole.length / 2));
        assertThat(refusal(half)).contains(half + " is no whole jar");
    }

    @Test
    void aSignedJarIsRefused() throws IOException {
        Path signed = cassandra("s.jar", content -> content.put("META-INF/A.SF", new byte[1]));
        assertThat(refusal(signed)).contains("is signed");
    }

    @Test
    void aFileThatExistsIsLeftAlone() throws Exception {
        Path stock = cassandra("stock.jar", content -> {});
        Files.writeString(out(), "somebody's");
        assertThat(refusal(stock, out())).contains(out() + " exists");
        assertThat(out()).hasContent("somebody's");
        assertThat(refusal(stock, stock)).contains(stock + " exists");
        assertThat(refusal(stock, directory.resolve("none/x.jar"))).contains("is no directory");
    }

    @Test
    void aMissingMethodIsNamed() throws IOException {
        Path other =
                cassandra(
                        "other.jar",
                        content ->
                                content.computeIfPresent(
                                        ClassFiles.path(STORE),
                                        (path, file) -> renamed(file, "dumpMemtable")));
        assertThat(refusal(other))
                .contains("this Cassandra has no " + STORE + ".dumpMemtable()")
                .contains("docs/compatibility.md");
    }

    @Test
    void theNextMajorReleaseIsRefusedAlsoIfItsOwnerInsists() throws Exception {
        Path next = NextReleaseTest.jar();
        assertThat(refusal(next))
                .contains(next + " cannot be woven: Cassandra 6.0-")
                .contains("this version of Petra, which is for Cassandra 5.0: see")
                .contains("docs/cassandra-6.md")
                .contains(
                        "this Cassandra has no org.apache.cassandra.service.StartupChecks.verify");
        assertThatThrownBy(() -> Weaver.weave(next, out(), true))
                .isInstanceOf(Weaver.RefusedException.class)
                .hasMessageContaining("docs/cassandra-6.md");
        assertThat(out()).doesNotExist();
    }

    /** A fork that has changed one method with a join point, and others without. */
    @Test
    void changedMethodsAreNamedAndWovenIfTheirOwnerInsists() throws Exception {
        Path fork =
                cassandra(
                        "fork.jar",
                        content -> {
                            content.computeIfPresent(
                                    ClassFiles.path(STORE),
                                    (path, file) -> changed(file, "dumpMemtable"));
                            content.computeIfPresent(
                                    ClassFiles.path(DAEMON), (path, file) -> changed(file, "stop"));
                            content.put(
                                    VERSION,
                                    "CassandraVersion=5.0.9-acme".getBytes(StandardCharsets.UTF_8));
                        });
        assertThat(refusal(fork))
                .contains("Cassandra 5.0.9-acme is none of the releases that Petra knows, [")
                .contains("not as in 5.0.9, which is most like it")
                .contains(": " + STORE + ".dumpMemtable(). ")
                .contains("--allow-changed");
        WovenJar woven = Weaver.weave(fork, out(), true);
        assertThat(woven.original().closest()).isEqualTo("5.0.9");
        assertThat(woven.original().changed()).containsExactly(STORE + ".dumpMemtable()");
        assertThat(woven.defect(KnownReleases.classes(out()))).isNull();
        assertThat(WovenJar.find(KnownReleases.classes(out()))).isEqualTo(woven);
    }

    /** A fork that kept the name. */
    @Test
    void aKnownReleaseThatWasChangedIsNotCalledUnknown() throws IOException {
        Path fork =
                cassandra(
                        "fork.jar",
                        content ->
                                content.computeIfPresent(
                                        ClassFiles.path(STORE),
                                        (path, file) -> changed(file, "dumpMemtable")));
        assertThat(refusal(fork))
                .contains("Cassandra 5.0.9 is not the 5.0.9 that Petra knows")
                .contains("not as in that: " + STORE + ".dumpMemtable(). ")
                .doesNotContain("none of");
    }

    @Test
    void aForkThatChangesNothingWovenNeedsNoWord() throws Exception {
        Path fork =
                cassandra(
                        "fork.jar",
                        content -> {
                            content.put(
                                    VERSION,
                                    "CassandraVersion=5.0.10".getBytes(StandardCharsets.UTF_8));
                            content.computeIfPresent(
                                    ClassFiles.path(STORE),
                                    (path, file) ->
                                            shifted(changed(file, "rebuildSecondaryIndex")));
                        });
        assertThat(Weaver.weave(fork, out(), false).original())
                .isEqualTo(new Fingerprints.Comparison("5.0.9", List.of()));
    }

    @Test
    void aMarkerOfAnotherVersionOrOtherClassesIsRefused() throws Exception {
        WovenJar woven = Weaver.weave(cassandra("stock.jar", content -> {}), out(), false);
        ClassFiles classes = KnownReleases.classes(out());
        WovenJar other =
                new WovenJar("0123", "0.9", woven.release(), woven.original(), woven.classes());
        assertThat(other.defect(classes))
                .contains("woven by Petra 0.9 (join points 0123)")
                .contains("but the plugin jar is Petra")
                .contains("Weave the original jar once more");
        byte[] stock = KnownReleases.classes(KnownReleases.own()).find(STORE);
        assertThat(woven.defect(p -> p.equals(ClassFiles.path(STORE)) ? stock : classes.file(p)))
                .contains("would not run the woven classes [" + STORE + "]")
                .contains("class path");
        assertThat(WovenJar.parse("half").defect(classes)).contains("Weave the original jar");
    }

    @Test
    void wrongUsage() {
        assertThatThrownBy(() -> Weaver.weave(directory, out(), false))
                .hasMessageContaining("is no file");
        for (String[] line :
                new String[][] {{}, {"--in"}, {"--in", "a"}, {"--out", "a"}, {"--bogus"}})
            assertThat(WeaveCommand.run(System.out, System.err, line)).isEqualTo(2);
    }

    private static byte[] renamed(byte[] file, String method) {
        return visited(
                file,
                (writer, name) -> name.equals(method) ? name + "Elsewhere" : name,
                code -> code,
                method);
    }

    /** Adds an instruction at the beginning of each method of that name. */
    private static byte[] changed(byte[] file, String method) {
        return visited(
                file,
                (writer, name) -> name,
                code ->
                        new MethodVisitor(Opcodes.ASM9, code) {
                            @Override
                            public void visitCode() {
                                super.visitCode();
                                visitInsn(Opcodes.NOP);
                            }
                        },
                method);
    }

    /** Shifts line numbers, as if lines had been added at the top of the source. */
    private static byte[] shifted(byte[] file) {
        return visited(
                file,
                (writer, name) -> name,
                code ->
                        new MethodVisitor(Opcodes.ASM9, code) {
                            @Override
                            public void visitLineNumber(int line, Label start) {
                                super.visitLineNumber(line + 10, start);
                            }
                        },
                null);
    }

    @FunctionalInterface
    private interface Naming {
        String of(ClassWriter writer, String name);
    }

    private static byte[] visited(
            byte[] file,
            Naming naming,
            java.util.function.UnaryOperator<MethodVisitor> code,
            @Nullable String method) {
        ClassWriter writer = new ClassWriter(0);
        new ClassReader(file)
                .accept(
                        new ClassVisitor(Opcodes.ASM9, writer) {
                            @Override
                            public MethodVisitor visitMethod(
                                    int access,
                                    String name,
                                    String descriptor,
                                    @Nullable String signature,
                                    String @Nullable [] exceptions) {
                                MethodVisitor to =
                                        super.visitMethod(
                                                access,
                                                naming.of(writer, name),
                                                descriptor,
                                                signature,
                                                exceptions);
                                return method == null || name.equals(method) ? code.apply(to) : to;
                            }
                        },
                        0);
        return writer.toByteArray();
    }
}
