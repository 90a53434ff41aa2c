// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher.cql;

import static org.assertj.core.api.Assertions.assertThat;

import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import java.lang.reflect.Proxy;
import org.junit.jupiter.api.Test;

/** What is said of a statement that failed: it gets into logs. */
final class CqlClientTest {
    private static final String ROLE = "CREATE ROLE a\n  WITH Password = 'secret' AND LOGIN = true";

    private static Node node() {
        return (Node)
                Proxy.newProxyInstance(
                        Node.class.getClassLoader(),
                        new Class<?>[] {Node.class},
                        (unusedProxy, unusedMethod, unusedArguments) -> {
                            throw new AssertionError();
                        });
    }

    @Test
    void anExcerptEndsBehindTheWordPassword() {
        assertThat(CqlClient.excerpt(ROLE)).isEqualTo("CREATE ROLE a WITH Password…");
        assertThat(CqlClient.excerpt("ALTER ROLE a WITH HASHED PASSWORD = 'x'"))
                .isEqualTo("ALTER ROLE a WITH HASHED PASSWORD…");
        assertThat(CqlClient.excerpt("SELECT *\n FROM t")).isEqualTo("SELECT * FROM t");
        assertThat(CqlClient.excerpt("x".repeat(130) + " password = 'secret'"))
                .isEqualTo("x".repeat(120) + "…");
    }

    /** Cassandra quotes what it does not understand. */
    @Test
    void aSyntaxErrorDoesNotQuoteAPassword() {
        String message = "line 2:18 no viable alternative at input 'secret' (... = [secret])";
        SyntaxError error = new SyntaxError(node(), message);
        assertThat(CqlClient.reason(error, ROLE)).isEqualTo("syntax error at line 2:18");
        assertThat(CqlClient.reason(error, "SELEC 1")).isEqualTo(message);
        assertThat(CqlClient.reason(new InvalidQueryException(node(), "a exists"), ROLE))
                .isEqualTo("a exists");
    }
}
