// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import dev.petra.launcher.cql.AlignedRows;
import dev.petra.launcher.cql.CqlClient;
import dev.petra.launcher.cql.CqlException;
import dev.petra.launcher.cql.CqlScript;
import dev.petra.launcher.cql.JsonRows;
import dev.petra.launcher.cql.RowWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.List;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** {@code petra cql}: runs statements one after another, and stops at the first that fails. */
@Command(
        name = "cql",
        description = "Runs CQL statements, separated by semicolons, on the node at an address.")
final class CqlCommand implements Runnable {
    @Mixin private CqlOptions node = new CqlOptions();

    @Option(names = "--json", description = "Show each row as a JSON object on a line.")
    private boolean json;

    @ArgGroup(multiplicity = "1")
    private Script script = new Script();

    @Spec
    @SuppressWarnings("NullAway.Init") // picocli sets it before it runs anything.
    private CommandSpec spec;

    @Override
    public void run() {
        List<String> statements = CqlScript.split(script.read());
        PrintWriter out = spec.commandLine().getOut();
        try (CqlClient client = node.connect()) {
            for (String statement : statements) {
                RowWriter rows = json ? new JsonRows(out) : new AlignedRows(out);
                client.run(statement, rows, spec.commandLine().getErr());
            }
        }
    }

    /** The statements: an argument, a file, or the standard input. */
    private static final class Script {
        @Parameters(paramLabel = "CQL", description = "The statements.")
        private @Nullable String text;

        @Option(
                names = {"-f", "--file"},
                paramLabel = "FILE",
                description = "A file of statements in UTF-8; - is the standard input.")
        private @Nullable String file;

        String read() {
            return text != null ? text : file != null ? readFile(file) : "";
        }

        private static String readFile(String file) {
            try {
                byte[] bytes =
                        file.equals("-")
                                ? System.in.readAllBytes()
                                : Files.readAllBytes(Path.of(file));
                return StandardCharsets.UTF_8
                        .newDecoder()
                        .decode(ByteBuffer.wrap(bytes))
                        .toString();
            } catch (CharacterCodingException e) {
                throw new CqlException(file + " is not in UTF-8", e);
            } catch (NoSuchFileException e) {
                throw new CqlException("there is no file " + file, e);
            } catch (IOException e) {
                throw new CqlException("cannot read " + file + ": " + e.getMessage(), e);
            }
        }
    }
}
