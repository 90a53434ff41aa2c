// SPDX-License-Identifier: Apache-2.0
package dev.petra.nodetests;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** What a table has on disk, found by its name whatever its id. */
record TableFiles(Path data, String keyspace, String table) {
    static TableFiles of(TestNode node, String keyspace, String table) {
        return new TableFiles(node.process().directory().root().resolve("data"), keyspace, table);
    }

    /** The table's directory; of several tables of that name, the one that was created last. */
    Path directory() {
        return children(data.resolve(keyspace)).stream()
                .filter(path -> path.getFileName().toString().startsWith(table + "-"))
                .max((a, b) -> Long.compare(a.toFile().lastModified(), b.toFile().lastModified()))
                .orElseThrow();
    }

    /** The folder of its stores; may not exist. */
    Path stores() {
        return directory().resolve("rocksdb");
    }

    /** The names of the folders of its generations. */
    List<String> generations() {
        return children(stores()).stream()
                .map(path -> path.getFileName().toString())
                .filter(name -> Character.isDigit(name.charAt(0)))
                .sorted()
                .toList();
    }

    /** The stores in its snapshots whose tag begins so. */
    List<Path> snapshots(String prefix) {
        return children(directory().resolve("snapshots")).stream()
                .filter(path -> path.getFileName().toString().startsWith(prefix))
                .map(path -> path.resolve("rocksdb"))
                .toList();
    }

    static List<Path> children(Path directory) {
        if (!Files.isDirectory(directory)) return List.of();
        try (Stream<Path> children = Files.list(directory)) {
            return children.toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Copies a folder. */
    static void copy(Path from, Path to) {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path source : all.toList())
                Files.copy(source, to.resolve(from.relativize(source)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Deletes a folder. */
    static void delete(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted((a, b) -> b.compareTo(a)).toList()) Files.delete(path);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
