// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import net.bytebuddy.jar.asm.AnnotationVisitor;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import org.jspecify.annotations.Nullable;

/**
 * A hash of a method's code, including the lambdas in it. Two methods of a class have the same
 * fingerprint if they have the same instructions, wherever these are in the source and in the class
 * file. The code of methods that the method calls is not included.
 */
final class Fingerprint {
    private static final int API = Opcodes.ASM9;
    private static final int LENGTH = 16;

    /**
     * The prefix of the methods that javac makes of lambdas. The rest of their names ends in a
     * number that counts through the class: a lambda that is added elsewhere changes it.
     */
    private static final String LAMBDA = "lambda$";

    private final byte[] classFile;
    private final String className;
    private final ClassWriter alone = new ClassWriter(0);
    private final Map<String, String> names = new HashMap<>();
    private final Deque<String> toDo = new ArrayDeque<>();
    private boolean found;

    private Fingerprint(byte[] classFile) {
        this.classFile = classFile;
        this.className = new ClassReader(classFile).getClassName();
    }

    /** Whether a class has the method of a join point. */
    static boolean has(byte[] classFile, JoinPoint point) {
        Fingerprint fingerprint = new Fingerprint(classFile);
        fingerprint.copy(point::isAt, point.method());
        return fingerprint.found;
    }

    /** The fingerprint of a join point's method, or null if the class does not have the method. */
    static @Nullable String of(byte[] classFile, JoinPoint point) {
        Fingerprint fingerprint = new Fingerprint(classFile);
        return fingerprint.compute(point);
    }

    /** The fingerprint of a whole class without its debug information, such as line numbers. */
    static String ofClass(byte[] classFile) {
        ClassWriter copy = new ClassWriter(0);
        new ClassReader(classFile).accept(copy, ClassReader.SKIP_DEBUG);
        return of(copy.toByteArray());
    }

    /** The first 16 hex digits of the SHA-256 of the bytes. */
    static String of(byte[] bytes) {
        try {
            byte[] hash = MessageDigest.getInstance("SHA-256").digest(bytes);
            return HexFormat.of().formatHex(hash).substring(0, LENGTH);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }

    /**
     * Copies the method and its lambdas into a class of their own, in the order of their use, and
     * hashes that class.
     */
    private @Nullable String compute(JoinPoint point) {
        alone.visit(Opcodes.V11, 0, className, null, "java/lang/Object", null);
        copy(point::isAt, point.method());
        if (!found) return null;
        while (!toDo.isEmpty()) {
            String lambda = toDo.remove();
            copy((name, descriptor) -> name.equals(lambda), renamed(lambda));
        }
        return of(alone.toByteArray());
    }

    @FunctionalInterface
    private interface Wanted {
        boolean test(String name, String descriptor);
    }

    private void copy(Wanted wanted, String as) {
        new ClassReader(classFile)
                .accept(
                        new ClassVisitor(API) {
                            @Override
                            public @Nullable MethodVisitor visitMethod(
                                    int access,
                                    String name,
                                    String descriptor,
                                    @Nullable String signature,
                                    String @Nullable [] exceptions) {
                                if (!wanted.test(name, descriptor)) return null;
                                found = true;
                                return new Code(
                                        alone.visitMethod(access, as, descriptor, null, null));
                            }
                        },
                        ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
    }

    private boolean isLambda(Object constant) {
        return constant instanceof Handle handle
                && handle.getOwner().equals(className)
                && handle.getName().startsWith(LAMBDA);
    }

    private String renamed(String lambda) {
        String known = names.get(lambda);
        if (known != null) return known;
        String name = LAMBDA + names.size();
        names.put(lambda, name);
        toDo.add(lambda);
        return name;
    }

    /** Numbers lambdas in the order of their use, and leaves out the method's annotations. */
    private final class Code extends MethodVisitor {
        Code(MethodVisitor to) {
            super(API, to);
        }

        @Override
        public void visitInvokeDynamicInsn(
                String name, String descriptor, Handle bootstrap, Object... arguments) {
            Object[] own = arguments.clone();
            for (int i = 0; i < own.length; i++)
                if (isLambda(own[i])) {
                    Handle handle = (Handle) own[i];
                    own[i] =
                            new Handle(
                                    handle.getTag(),
                                    handle.getOwner(),
                                    renamed(handle.getName()),
                                    handle.getDesc(),
                                    handle.isInterface());
                }
            super.visitInvokeDynamicInsn(name, descriptor, bootstrap, own);
        }

        @Override
        public @Nullable AnnotationVisitor visitAnnotation(String descriptor, boolean visible) {
            return null;
        }

        @Override
        public @Nullable AnnotationVisitor visitParameterAnnotation(
                int parameter, String descriptor, boolean visible) {
            return null;
        }
    }
}
