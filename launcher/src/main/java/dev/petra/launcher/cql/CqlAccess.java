// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * What a node asks of its clients.
 *
 * @param login who logs in; null: nobody does
 * @param tls how connections are encrypted; null: they are not
 */
public record CqlAccess(@Nullable Login login, @Nullable Tls tls) {
    /** For nodes that ask nothing. */
    public static final CqlAccess OPEN = new CqlAccess(null, null);

    /** A role and its password. */
    public record Login(String user, String password) {
        @Override
        public String toString() {
            return user;
        }
    }

    /**
     * TLS.
     *
     * @param truststore whose certificates are trusted; null: those of the JVM
     * @param keystore with the client's own certificate; null: it has none
     * @param checksAddress whether a certificate must be of the node's address
     */
    public record Tls(
            @Nullable Store truststore, @Nullable Store keystore, boolean checksAddress) {}

    /** A file of keys or certificates, PKCS12 or JKS. */
    public record Store(Path file, String password) {
        @Override
        public String toString() {
            return file.toString();
        }
    }
}
