// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import java.io.IOException;
import java.io.OutputStream;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.jar.Attributes;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import java.util.jar.Manifest;

/** Packs test classes into a jar that a node loads as an agent. */
final class AgentJar {
    private AgentJar() {}

    /**
     * Writes the jar.
     *
     * @param agent the class with {@code premain}
     * @param classes by a class, from where it came: those whose path begins so
     * @param files further content, by path
     */
    static void pack(
            Path jar, Class<?> agent, Map<Class<?>, String> classes, Map<String, String> files)
            throws IOException, URISyntaxException {
        Manifest manifest = new Manifest();
        manifest.getMainAttributes().put(Attributes.Name.MANIFEST_VERSION, "1.0");
        manifest.getMainAttributes().putValue("Premain-Class", agent.getName());
        manifest.getMainAttributes().putValue("Can-Retransform-Classes", "true");
        try (JarOutputStream out = new JarOutputStream(Files.newOutputStream(jar), manifest)) {
            for (Map.Entry<Class<?>, String> from : classes.entrySet())
                add(out, from.getKey(), from.getValue());
            for (Map.Entry<String, String> file : files.entrySet())
                entry(out, file.getKey(), file.getValue().getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void add(JarOutputStream out, Class<?> of, String prefix)
            throws IOException, URISyntaxException {
        Path source = Path.of(of.getProtectionDomain().getCodeSource().getLocation().toURI());
        if (Files.isDirectory(source)) {
            try (var files = Files.walk(source.resolve(prefix))) {
                for (Path file : (Iterable<Path>) files.filter(Files::isRegularFile)::iterator)
                    entry(out, source.relativize(file).toString(), Files.readAllBytes(file));
            }
            return;
        }
        try (var in = new JarFile(source.toFile())) {
            for (JarEntry entry : (Iterable<JarEntry>) in.stream()::iterator)
                if (entry.getName().startsWith(prefix) && !entry.isDirectory())
                    entry(out, entry.getName(), in.getInputStream(entry).readAllBytes());
        }
    }

    private static void entry(OutputStream out, String name, byte[] bytes) throws IOException {
        ((JarOutputStream) out).putNextEntry(new JarEntry(name));
        out.write(bytes);
    }
}
