// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.FieldVisitor;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import net.bytebuddy.jar.asm.Type;
import org.jspecify.annotations.Nullable;

/**
 * Compares what the plugin's classes need of Cassandra's with what a release has: the classes,
 * methods and fields that they name, the abstract methods that they must implement, and the methods
 * that they override.
 */
final class Linkage {
    private static final String CASSANDRA = "org/apache/cassandra/";

    /** The modules in the plugin jar. */
    private static final List<String> PLUGIN =
            List.of("cassandra", "engine-api", "streaming", "engine-rocks");

    /** Our classes, and those of the release that they are compiled with. */
    private final Map<String, Declared> own;

    /** Our classes, and those of the other release. */
    private final Map<String, Declared> other;

    /** What the other release lacks, and by which of our classes it is needed. */
    private final NavigableMap<String, NavigableSet<String>> lacking = new TreeMap<>();

    private Linkage(Map<String, Declared> own, Map<String, Declared> other) {
        this.own = own;
        this.other = other;
    }

    /**
     * What a release lacks of what the plugin needs, as Java would declare it, with the names of
     * the outermost classes of the plugin that need it.
     */
    static NavigableMap<String, NavigableSet<String>> lacking(Path release) throws IOException {
        List<byte[]> ours = ourClasses();
        Linkage linkage = new Linkage(declared(KnownReleases.own()), declared(release));
        for (byte[] file : ours) {
            declare(file, linkage.own);
            declare(file, linkage.other);
        }
        for (byte[] file : ours) linkage.check(file);
        return linkage.lacking;
    }

    private void check(byte[] file) {
        new ClassReader(file).accept(new Needs(), ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
    }

    /** Gathers what one class of ours needs. */
    private final class Needs extends ClassVisitor {
        private final List<String> supertypes = new ArrayList<>();
        private String by = "";

        Needs() {
            super(Opcodes.ASM9);
        }

        private void lacks(String what) {
            lacking.computeIfAbsent(what, each -> new TreeSet<>()).add(by);
        }

        private void type(String type) {
            if (type.startsWith(CASSANDRA) && !other.containsKey(type))
                lacks("class " + simple(type));
        }

        private void types(Type... types) {
            for (Type each : types) {
                Type element = each.getSort() == Type.ARRAY ? each.getElementType() : each;
                if (element.getSort() == Type.OBJECT) type(element.getInternalName());
            }
        }

        private void member(String owner, String name, String descriptor) {
            if (!owner.startsWith(CASSANDRA)) return;
            if (!other.containsKey(owner)) type(owner);
            else if (!has(other, owner, key(name, descriptor)))
                lacks(shown(owner, name, descriptor));
        }

        /** A call of a class's method fails if the class is an interface, and the reverse. */
        private void method(String owner, String name, String descriptor, boolean isInterface) {
            member(owner, name, descriptor);
            Declared declared = owner.startsWith(CASSANDRA) ? other.get(owner) : null;
            if (declared != null && declared.isInterface() != isInterface)
                lacks((isInterface ? "interface " : "class ") + simple(owner));
        }

        @Override
        public void visit(
                int version,
                int access,
                String name,
                @Nullable String signature,
                String superName,
                String[] interfaces) {
            by = name.substring("dev/petra/".length()).replaceFirst("\\$.*", "").replace('/', '.');
            supertypes.add(superName);
            supertypes.addAll(Arrays.asList(interfaces));
            supertypes.forEach(this::type);
            if ((access & Opcodes.ACC_ABSTRACT) != 0) return;
            Map<String, String> asked = unimplemented(other, name);
            // Such as those that a supertype outside of Cassandra implements.
            asked.keySet().removeAll(unimplemented(own, name).keySet());
            for (String method : asked.values()) lacks("implemented " + method);
        }

        @Override
        public MethodVisitor visitMethod(
                int access,
                String name,
                String descriptor,
                @Nullable String signature,
                String @Nullable [] exceptions) {
            boolean overrides =
                    !name.equals("<init>")
                            && (access & (Opcodes.ACC_STATIC | Opcodes.ACC_PRIVATE)) == 0;
            for (String each : supertypes)
                if (overrides
                        && each.startsWith(CASSANDRA)
                        && has(own, each, key(name, descriptor))
                        && !has(other, each, key(name, descriptor)))
                    lacks("overridden " + shown(each, name, descriptor));
            types(Type.getReturnType(descriptor));
            types(Type.getArgumentTypes(descriptor));
            return new Calls(this);
        }

        @Override
        public @Nullable FieldVisitor visitField(
                int access,
                String name,
                String descriptor,
                @Nullable String signature,
                @Nullable Object value) {
            types(Type.getType(descriptor));
            return null;
        }
    }

    private static final class Calls extends MethodVisitor {
        private final Needs needs;

        Calls(Needs needs) {
            super(Opcodes.ASM9);
            this.needs = needs;
        }

        @Override
        public void visitMethodInsn(
                int opcode, String owner, String name, String descriptor, boolean isInterface) {
            needs.method(owner, name, descriptor, isInterface);
        }

        @Override
        public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
            needs.member(owner, name, descriptor);
        }

        @Override
        public void visitInvokeDynamicInsn(
                String name, String descriptor, Handle bootstrap, Object... arguments) {
            for (Object argument : arguments)
                if (argument instanceof Handle handle)
                    needs.method(
                            handle.getOwner(),
                            handle.getName(),
                            handle.getDesc(),
                            handle.isInterface());
        }

        @Override
        public void visitTypeInsn(int opcode, String type) {
            needs.types(Type.getObjectType(type));
        }

        @Override
        public void visitLdcInsn(Object constant) {
            if (constant instanceof Type type && type.getSort() != Type.METHOD) needs.types(type);
        }
    }

    /**
     * What a class declares.
     *
     * @param parents its supertypes
     * @param members the keys of its members
     * @param abstracts its abstract methods as Java declares them, by their keys
     */
    private record Declared(
            boolean isInterface,
            List<String> parents,
            Set<String> members,
            Map<String, String> abstracts) {}

    /** Whether a type has a member, its own or inherited. */
    private static boolean has(Map<String, Declared> types, String type, String member) {
        Declared declared = find(types, type);
        return declared != null
                && (declared.members().contains(member)
                        || declared.parents().stream()
                                .anyMatch(parent -> has(types, parent, member)));
    }

    /** What a type declares; a type outside of Cassandra is that of this process. */
    private static @Nullable Declared find(Map<String, Declared> types, String type) {
        if (!types.containsKey(type) && !type.startsWith(CASSANDRA))
            try (InputStream file = ClassLoader.getSystemResourceAsStream(type + ".class")) {
                assertThat(file).as(type).isNotNull();
                declare(file.readAllBytes(), types);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        return types.get(type);
    }

    /** The abstract methods of a class and its supertypes that none of them implements. */
    private static Map<String, String> unimplemented(Map<String, Declared> types, String type) {
        Map<String, String> abstracts = new TreeMap<>();
        Set<String> concrete = new TreeSet<>();
        gather(types, type, abstracts, concrete);
        abstracts.keySet().removeAll(concrete);
        return abstracts;
    }

    private static void gather(
            Map<String, Declared> types,
            String type,
            Map<String, String> abstracts,
            Set<String> concrete) {
        Declared declared = find(types, type);
        if (declared == null) return;
        abstracts.putAll(declared.abstracts());
        for (String member : declared.members())
            if (!declared.abstracts().containsKey(member)) concrete.add(member);
        for (String parent : declared.parents()) gather(types, parent, abstracts, concrete);
    }

    private static String key(String name, String descriptor) {
        return name + ' ' + descriptor;
    }

    /** A member as Java would declare it, with simple names of types. */
    private static String shown(String owner, String name, String descriptor) {
        String member = simple(owner) + '.' + name;
        if (!descriptor.startsWith("(")) return simple(Type.getType(descriptor)) + ' ' + member;
        String call =
                member
                        + Arrays.stream(Type.getArgumentTypes(descriptor))
                                .map(Linkage::simple)
                                .collect(Collectors.joining(", ", "(", ")"));
        return name.equals("<init>") ? call : simple(Type.getReturnType(descriptor)) + ' ' + call;
    }

    private static String simple(Type type) {
        return simple(type.getClassName().replace('.', '/'));
    }

    private static String simple(String type) {
        return type.substring(type.lastIndexOf('/') + 1).replace('$', '.');
    }

    private static Map<String, Declared> declared(Path jar) throws IOException {
        Map<String, Declared> types = new HashMap<>();
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            for (ZipEntry entry : Collections.list(zip.entries()))
                if (entry.getName().endsWith(".class"))
                    try (InputStream in = zip.getInputStream(entry)) {
                        declare(in.readAllBytes(), types);
                    }
        }
        return types;
    }

    private static void declare(byte[] file, Map<String, Declared> types) {
        ClassReader reader = new ClassReader(file);
        String type = reader.getClassName();
        List<String> parents = new ArrayList<>(List.of(reader.getInterfaces()));
        if (reader.getSuperName() != null) parents.add(reader.getSuperName());
        Declared declared =
                new Declared(
                        (reader.getAccess() & Opcodes.ACC_INTERFACE) != 0,
                        parents,
                        new TreeSet<>(),
                        new TreeMap<>());
        reader.accept(
                new ClassVisitor(Opcodes.ASM9) {
                    @Override
                    public @Nullable MethodVisitor visitMethod(
                            int access,
                            String name,
                            String descriptor,
                            @Nullable String signature,
                            String @Nullable [] exceptions) {
                        declared.members().add(key(name, descriptor));
                        if ((access & Opcodes.ACC_ABSTRACT) != 0)
                            declared.abstracts()
                                    .put(key(name, descriptor), shown(type, name, descriptor));
                        return null;
                    }

                    @Override
                    public @Nullable FieldVisitor visitField(
                            int access,
                            String name,
                            String descriptor,
                            @Nullable String signature,
                            @Nullable Object value) {
                        declared.members().add(key(name, descriptor));
                        return null;
                    }
                },
                ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG);
        types.put(type, declared);
    }

    private static List<byte[]> ourClasses() throws IOException {
        List<byte[]> files = new ArrayList<>();
        for (String module : PLUGIN) {
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
