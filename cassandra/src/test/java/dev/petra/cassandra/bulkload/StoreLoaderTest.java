// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.tools.LoaderOptions;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The options of {@link StoreLoader}; {@code LoadIT} loads. */
class StoreLoaderTest {
    /** Cassandra's parser of arguments would spoil the first two. */
    private static final Map<String, String> VARIABLES =
            Map.of(
                    "PETRA_CQL_PASSWORD", "-p1",
                    "PETRA_TRUSTSTORE_PASSWORD", "\"quoted\"",
                    "PETRA_KEYSTORE_PASSWORD", "own");

    @TempDir Path directory;

    @BeforeAll
    static void asTheLoaderDoes() {
        DatabaseDescriptor.clientInitialization(false);
    }

    private LoaderOptions options(Map<String, String> variables, String... further) {
        List<String> arguments = new ArrayList<>(List.of("--nodes", "127.0.0.1"));
        arguments.addAll(List.of(further));
        arguments.add(directory.toString());
        return StoreLoader.options(arguments.toArray(String[]::new), variables);
    }

    /** They could be given on the command line only, which all users of the machine see. */
    @Test
    void passwordsAreTakenFromTheEnvironment() {
        LoaderOptions options =
                options(VARIABLES, "--username", "me", "--truststore", "t", "--keystore", "k");

        assertThat(options.passwd).isEqualTo("-p1");
        assertThat(options.authProvider).isNotNull();
        assertThat(options.clientEncOptions.truststore_password).isEqualTo("\"quoted\"");
        assertThat(options.clientEncOptions.keystore_password).isEqualTo("own");
        assertThat(options.clientEncOptions.getEnabled()).isTrue();
    }

    @Test
    void passwordsThatAreGivenComeFirst() {
        LoaderOptions options =
                options(
                        VARIABLES,
                        "--username",
                        "me",
                        "--password",
                        "a",
                        "--truststore-password",
                        "b",
                        "--keystore-password",
                        "c");

        assertThat(options.passwd).isEqualTo("a");
        assertThat(options.clientEncOptions.truststore_password).isEqualTo("b");
        assertThat(options.clientEncOptions.keystore_password).isEqualTo("c");
    }

    /** The variables may be there for other commands. */
    @Test
    void withoutUserAndTlsVariablesChangeNothing() {
        LoaderOptions options = options(VARIABLES);

        assertThat(options.passwd).isNull();
        assertThat(options.authProvider).isNull();
        assertThat(options.clientEncOptions.getEnabled()).isFalse();
        assertThat(options(Map.of()).clientEncOptions.truststore_password).isNull();
    }
}
