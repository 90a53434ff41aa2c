// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.agent;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.IllegalClassFormatException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.LocalDateTime;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.ZipEntry;
import java.util.zip.ZipException;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.utility.JavaModule;
import org.jspecify.annotations.Nullable;

/**
 * Weaves {@link JoinPoints} into the classes of Cassandra's jar, for nodes that run without the
 * agent. On one JDK, the same input gives the same bytes. The woven code calls classes of the
 * plugin jar, so the node needs that jar too.
 */
final class Weaver {
    /** The time of every jar entry: the clock's time would make each output different. */
    private static final LocalDateTime TIME = LocalDateTime.of(1980, 2, 1, 0, 0);

    private Weaver() {}

    /** The jar cannot be woven; the message says why, and what to do. */
    static final class RefusedException extends Exception {
        RefusedException(String message) {
            super(message);
        }
    }

    /**
     * Weaves a jar.
     *
     * @param in Cassandra's jar, which is not changed
     * @param out the new jar, which must not exist yet; it appears only once it is complete and
     *     synced, with the permissions of {@code in}
     * @param insist whether to weave even if methods differ from those of every known release
     * @return what the marker file in the new jar says
     * @throws RefusedException if the jar cannot be woven; no new jar is left
     * @throws IOException if the new jar cannot be written; none is left
     * @throws UncheckedIOException if an entry of {@code in} cannot be read; no new jar is left
     */
    static WovenJar weave(Path in, Path out, boolean insist) throws IOException, RefusedException {
        if (Files.exists(out))
            throw new RefusedException(out + " exists: name another file, or remove it");
        Path folder = out.toAbsolutePath().getParent();
        if (folder == null || !Files.isDirectory(folder))
            throw new RefusedException(folder + " is no directory");
        if (!Files.isRegularFile(in)) throw new RefusedException(in + " is no file");
        try (ZipFile jar = new ZipFile(in.toFile())) {
            return weave(in, jar, out, folder, insist);
        } catch (ZipException e) {
            throw new RefusedException(in + " is no whole jar: " + e.getMessage());
        }
    }

    private static WovenJar weave(Path in, ZipFile jar, Path out, Path folder, boolean insist)
            throws IOException, RefusedException {
        ClassFiles cassandra = path -> read(jar, path);
        Fingerprints.Comparison original = check(in, jar, cassandra, insist);
        Map<String, byte[]> woven = weave(cassandra);
        Map<String, String> fingerprints = new TreeMap<>();
        woven.forEach((type, file) -> fingerprints.put(type, Fingerprint.of(file)));
        WovenJar marker =
                new WovenJar(
                        JoinPoints.version(),
                        WovenJar.ownVersion(),
                        Release.of(cassandra),
                        original,
                        fingerprints);
        // Files.createTempFile makes a file that only its owner may read.
        Path part =
                folder.resolve(out.getFileName() + "." + ProcessHandle.current().pid() + ".part");
        // No finally runs when this process is ended by Ctrl-C.
        part.toFile().deleteOnExit();
        try {
            write(jar, woven, marker, part);
            try (FileChannel written = FileChannel.open(part, StandardOpenOption.WRITE)) {
                written.force(true);
            }
            // It takes the other's place, whatever the umask of the one who weaves.
            Files.setPosixFilePermissions(part, Files.getPosixFilePermissions(in));
            // If another process has written the same file meanwhile, it is replaced as a whole.
            Files.move(part, out, StandardCopyOption.ATOMIC_MOVE);
        } finally {
            Files.deleteIfExists(part);
        }
        return marker;
    }

    private static Fingerprints.Comparison check(
            Path in, ZipFile jar, ClassFiles cassandra, boolean insist) throws RefusedException {
        WovenJar before = WovenJar.find(cassandra);
        if (before != null)
            throw new RefusedException(
                    in + " is woven already, by Petra " + before.petra() + ": take the original");
        if (cassandra.find("org.apache.cassandra.service.CassandraDaemon") == null)
            throw new RefusedException(
                    in
                            + " is not Cassandra: name the jar that is called"
                            + " apache-cassandra-5.0.x.jar or cassandra-all-5.0.x.jar");
        if (jar.stream().anyMatch(entry -> entry.getName().matches("META-INF/[^/]+\\.SF")))
            throw new RefusedException(
                    in
                            + " is signed, and its signature would not fit: weave it before it is"
                            + " signed");
        String refusal = JoinPoints.refusal(cassandra);
        if (refusal != null) throw new RefusedException(in + " cannot be woven: " + refusal);
        String release = Release.of(cassandra);
        Fingerprints.Comparison compared = Fingerprints.known().compare(cassandra, release);
        if (!compared.changed().isEmpty() && !insist)
            throw new RefusedException(
                    Weaving.difference(release, compared.closest(), compared.changed())
                            + ". See that the lines of docs/join-points.md are right there too, and"
                            + " weave it with --allow-changed");
        return compared;
    }

    /** The woven class files, by class name. */
    private static Map<String, byte[]> weave(ClassFiles cassandra) throws RefusedException {
        List<JoinPoint> points = JoinPoints.in(cassandra);
        Errors errors = new Errors();
        ClassFileTransformer transformer =
                AdviceWeaver.builder(
                                points,
                                new AgentBuilder.LocationStrategy.Simple(
                                        new ClassFileLocator.Compound(
                                                new Locator(cassandra),
                                                // For classes of the JDK, and of Cassandra's
                                                // libraries if they are on the class path.
                                                ClassFileLocator.ForClassLoader.ofSystemLoader())),
                                errors)
                        .makeRaw();
        Map<String, byte[]> woven = new HashMap<>();
        for (String type : JoinPoints.types(points)) {
            byte[] before = cassandra.find(type);
            if (before == null) throw new IllegalStateException(type + " is gone");
            byte[] after;
            try {
                after =
                        transformer.transform(
                                Weaver.class.getClassLoader(),
                                type.replace('.', '/'),
                                null,
                                null,
                                before);
            } catch (IllegalClassFormatException | RuntimeException e) {
                throw cannotWeave(type, errors.first == null ? e : errors.first);
            }
            if (errors.first != null) throw cannotWeave(type, errors.first);
            for (JoinPoint point : points)
                if (point.type().equals(type)
                        && (after == null
                                || String.valueOf(Fingerprint.of(before, point))
                                        .equals(Fingerprint.of(after, point))))
                    throw new RefusedException(point + " was left as it is");
            if (after != null) woven.put(type, after);
        }
        return woven;
    }

    private static RefusedException cannotWeave(String type, Throwable cause) {
        RefusedException refused =
                new RefusedException(
                        type
                                + " cannot be woven: "
                                + cause
                                + ". If that is a class of a library: petra weave looks for"
                                + " Cassandra's libraries beside the jar, in lib there, and in the"
                                + " folder that CASSANDRA_HOME names. For WeaveCommand, put lib/*"
                                + " on its class path");
        refused.initCause(cause);
        return refused;
    }

    /** Copies the jar's entries in their order with the woven classes, and adds the marker file. */
    private static void write(ZipFile jar, Map<String, byte[]> woven, WovenJar marker, Path to)
            throws IOException {
        Map<String, byte[]> changed = new HashMap<>();
        woven.forEach((type, file) -> changed.put(ClassFiles.path(type), file));
        try (OutputStream file = Files.newOutputStream(to);
                ZipOutputStream out = new ZipOutputStream(file)) {
            for (ZipEntry entry : Collections.list(jar.entries())) {
                byte[] content = changed.get(entry.getName());
                if (content == null)
                    try (InputStream in = jar.getInputStream(entry)) {
                        content = in.readAllBytes();
                    }
                write(out, entry.getName(), content);
            }
            write(out, WovenJar.FILE, marker.text().getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void write(ZipOutputStream out, String name, byte[] content) throws IOException {
        ZipEntry entry = new ZipEntry(name);
        entry.setTimeLocal(TIME);
        out.putNextEntry(entry);
        out.write(content);
        out.closeEntry();
    }

    private static byte @Nullable [] read(ZipFile jar, String path) {
        ZipEntry entry = jar.getEntry(path);
        if (entry == null) return null;
        try (InputStream in = jar.getInputStream(entry)) {
            return in.readAllBytes();
        } catch (IOException e) {
            throw new UncheckedIOException(jar.getName() + ": " + path + " cannot be read", e);
        }
    }

    /** Gives the class files to Byte Buddy. */
    private record Locator(ClassFiles files) implements ClassFileLocator {
        @Override
        public Resolution locate(String name) {
            byte[] file = files.find(name);
            return file == null ? new Resolution.Illegal(name) : new Resolution.Explicit(file);
        }

        @Override
        public void close() {
            // The jar belongs to the caller.
        }
    }

    private static final class Errors extends AgentBuilder.Listener.Adapter {
        private @Nullable Throwable first;

        @Override
        public void onError(
                String type,
                @Nullable ClassLoader loader,
                @Nullable JavaModule module,
                boolean loaded,
                Throwable failure) {
            if (first == null) first = failure;
        }
    }
}
