// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.FieldVisitor;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/**
 * The plugin is compiled with one Cassandra release and runs in others: each must have all classes,
 * methods and fields that the plugin refers to.
 */
class LinkageTest {
    private static final String CASSANDRA = "org/apache/cassandra/";

    /** The modules in the plugin jar. */
    private static final List<String> OURS =
            List.of("cassandra", "engine-api", "streaming", "engine-rocks");

    private static final String MEMTABLE_INDEX_OF_5_0_6 =
            "5.0.6 org/apache/cassandra/index/sai/memory/MemtableIndex <init>"
                    + "(Lorg/apache/cassandra/index/sai/StorageAttachedIndex;"
                    + "Lorg/apache/cassandra/db/memtable/Memtable;)V";

    private static final String LOOKING_INTO_SOURCES_OF_5_0_6 =
            "5.0.6 org/apache/cassandra/db/SinglePartitionReadCommand queryMemtableAndDisk"
                    + "(Lorg/apache/cassandra/db/ColumnFamilyStore;"
                    + "Lorg/apache/cassandra/db/ColumnFamilyStore$ViewFragment;"
                    + "Ljava/util/function/Function;"
                    + "Lorg/apache/cassandra/db/ReadExecutionController;)"
                    + "Lorg/apache/cassandra/db/rows/UnfilteredRowIterator;";

    @Test
    void everyKnownReleaseHasWhatThePluginCallsAndAsksForNothingElse() throws IOException {
        Map<String, Declared> own = declared(KnownReleases.own());
        List<String> all = new ArrayList<>();
        for (Map.Entry<String, Path> release : KnownReleases.jars().entrySet()) {
            Map<String, Declared> types = declared(release.getValue());
            Set<String> missing = new TreeSet<>();
            for (byte[] file : ourClasses()) check(file, types, own, missing);
            for (String each : missing) all.add(release.getKey() + " " + each);
        }
        // 5.0.6 lacks this constructor; IndexSupport refuses indexes on it.
        assertThat(all.remove(MEMTABLE_INDEX_OF_5_0_6)).isTrue();
        // Attempt does without it there.
        assertThat(all.remove(LOOKING_INTO_SOURCES_OF_5_0_6)).isTrue();
        assertThat(all).isEmpty();
    }

    private static void check(
            byte[] file,
            Map<String, Declared> types,
            Map<String, Declared> own,
            Set<String> missing) {
        new ClassReader(file)
                .accept(
                        new ClassVisitor(Opcodes.ASM9) {
                            @Override
                            public void visit(
                                    int version,
                                    int access,
                                    String name,
                                    @Nullable String signature,
                                    String superName,
                                    String[] interfaces) {
                                inherit(superName);
                                for (String each : interfaces) inherit(each);
                            }

                            private void inherit(String type) {
                                if (!type.startsWith(CASSANDRA)) return;
                                Set<String> asked = new TreeSet<>(abstracts(types, type));
                                asked.removeAll(abstracts(own, type));
                                for (String each : asked) missing.add("not implemented: " + each);
                            }

                            @Override
                            public MethodVisitor visitMethod(
                                    int access,
                                    String name,
                                    String descriptor,
                                    @Nullable String signature,
                                    String @Nullable [] exceptions) {
                                return new Calls(types, missing);
                            }
                        },
                        ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
    }

    private static final class Calls extends MethodVisitor {
        private final Map<String, Declared> types;
        private final Set<String> missing;

        Calls(Map<String, Declared> types, Set<String> missing) {
            super(Opcodes.ASM9);
            this.types = types;
            this.missing = missing;
        }

        private void needs(String owner, String member) {
            if (owner.startsWith(CASSANDRA) && !has(types, owner, member))
                missing.add(owner + " " + member);
        }

        @Override
        public void visitMethodInsn(
                int opcode, String owner, String name, String descriptor, boolean isInterface) {
            needs(owner, name + descriptor);
        }

        @Override
        public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
            needs(owner, name + ":" + descriptor);
        }

        @Override
        public void visitInvokeDynamicInsn(
                String name, String descriptor, Handle bootstrap, Object... arguments) {
            for (Object argument : arguments)
                if (argument instanceof Handle handle)
                    needs(handle.getOwner(), handle.getName() + handle.getDesc());
        }

        @Override
        public void visitTypeInsn(int opcode, String type) {
            if (type.startsWith(CASSANDRA) && !types.containsKey(type)) missing.add(type);
        }
    }

    /** The members that a class of Cassandra declares, and its supertypes. */
    private record Declared(List<String> parents, Set<String> members, Set<String> abstracts) {}

    /** Whether a type has a member. A type outside of Cassandra, except Object, is assumed to. */
    private static boolean has(Map<String, Declared> types, String type, String member) {
        Declared declared = types.get(type);
        if (declared == null)
            return !type.startsWith(CASSANDRA) && !type.equals("java/lang/Object");
        return declared.members().contains(member)
                || declared.parents().stream().anyMatch(parent -> has(types, parent, member));
    }

    private static Set<String> abstracts(Map<String, Declared> types, String type) {
        Set<String> all = new TreeSet<>();
        Declared declared = types.get(type);
        if (declared == null) return all;
        for (String each : declared.abstracts()) all.add(type + " " + each);
        for (String parent : declared.parents()) all.addAll(abstracts(types, parent));
        return all;
    }

    private static Map<String, Declared> declared(Path jar) throws IOException {
        Map<String, Declared> types = new HashMap<>();
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (ZipEntry entry :
                    (Iterable<ZipEntry>) zip.stream().map(ZipEntry.class::cast)::iterator)
                if (entry.getName().endsWith(".class"))
                    try (InputStream in = zip.getInputStream(entry)) {
                        declare(in.readAllBytes(), types);
                    }
        }
        return types;
    }

    private static void declare(byte[] file, Map<String, Declared> types) {
        ClassReader reader = new ClassReader(file);
        List<String> parents = new ArrayList<>(List.of(reader.getInterfaces()));
        if (reader.getSuperName() != null) parents.add(reader.getSuperName());
        Declared declared = new Declared(parents, new TreeSet<>(), new TreeSet<>());
        reader.accept(
                new ClassVisitor(Opcodes.ASM9) {
                    @Override
                    public @Nullable MethodVisitor visitMethod(
                            int access,
                            String name,
                            String descriptor,
                            @Nullable String signature,
                            String @Nullable [] exceptions) {
                        declared.members().add(name + descriptor);
                        if ((access & Opcodes.ACC_ABSTRACT) != 0)
                            declared.abstracts().add(name + descriptor);
                        return null;
                    }

                    @Override
                    public @Nullable FieldVisitor visitField(
                            int access,
                            String name,
                            String descriptor,
                            @Nullable String signature,
                            @Nullable Object value) {
                        declared.members().add(name + ":" + descriptor);
                        return null;
                    }
                },
                ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG);
        types.put(reader.getClassName(), declared);
    }

    private static List<byte[]> ourClasses() throws IOException {
        List<byte[]> files = new ArrayList<>();
        for (String module : OURS) {
            int before = files.size();
            for (Path entry : entries(module)) {
                if (Files.isDirectory(entry)) addClasses(entry, files);
                else
                    try (FileSystem jar = FileSystems.newFileSystem(entry)) {
                        addClasses(jar.getPath("/"), files);
                    }
            }
            assertThat(files).as(module).hasSizeGreaterThan(before);
        }
        return files;
    }

    private static List<Path> entries(String module) {
        List<Path> entries = new ArrayList<>();
        if (module.equals("cassandra")) return List.of(Path.of("target", "classes"));
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator, -1))
            if (entry.contains(File.separator + module) && !entry.contains("test"))
                entries.add(Path.of(entry));
        return entries;
    }

    private static void addClasses(Path root, List<byte[]> files) throws IOException {
        try (var all = Files.walk(root)) {
            for (Path file : (Iterable<Path>) all::iterator)
                if (file.toString().endsWith(".class")) files.add(Files.readAllBytes(file));
        }
    }
}
