// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.table;

import org.apache.cassandra.dht.IPartitioner;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.ConfigurationException;

/** A range of tokens as operators write it, {@code left:right}. */
public final class TokenRange {
    private TokenRange() {}

    /**
     * Reads one, which may wrap around the ring.
     *
     * @throws IllegalArgumentException if it is none
     */
    public static Range<Token> parse(IPartitioner partitioner, String text) {
        int colon = text.indexOf(':');
        Token.TokenFactory tokens = partitioner.getTokenFactory();
        try {
            if (colon > 0 && colon < text.length() - 1)
                return new Range<>(
                        token(tokens, text.substring(0, colon)),
                        token(tokens, text.substring(colon + 1)));
        } catch (ConfigurationException e) {
            throw new IllegalArgumentException(
                    "'" + text + "' is not a token range: " + e.getMessage(), e);
        }
        throw new IllegalArgumentException(
                "'" + text + "' is not a token range: it must be <left>:<right>.");
    }

    private static Token token(Token.TokenFactory tokens, String text) {
        tokens.validate(text);
        return tokens.fromString(text);
    }
}
