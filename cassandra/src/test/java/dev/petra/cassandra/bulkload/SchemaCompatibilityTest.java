// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.TableMetadata;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class SchemaCompatibilityTest {
    @BeforeAll
    static void initialize() {
        DatabaseDescriptor.clientInitialization(false);
    }

    /** A table with one column of this type, in a keyspace. */
    private static TableMetadata table(String keyspace, String type) {
        SchemaText schema =
                SchemaText.parse(
                        """
                        CREATE TYPE %1$s.place (x int, y frozen<list<text>>);
                        CREATE TABLE %1$s.t (p int PRIMARY KEY, u %2$s);
                        """
                                .formatted(keyspace, type));
        return schema.table(Murmur3Partitioner.instance, schema.types(List.of()));
    }

    private static List<String> difference(String from, String to) {
        return SchemaCompatibility.difference(table("ks", from), table("other", to));
    }

    @Test
    void aTypeIsTheSameInAnotherKeyspace() {
        for (String type :
                List.of(
                        "place",
                        "frozen<place>",
                        "list<frozen<place>>",
                        "frozen<list<frozen<place>>>",
                        "int")) assertThat(difference(type, type)).as(type).isEmpty();
    }

    /** What is stored as one cell is never read from cells of fields, nor the other way round. */
    @Test
    void aFrozenTypeIsNotTheSameAsOneThatIsNot() {
        String fields = "tuple<int, frozen<list<text>>>";
        assertThat(difference("place", "frozen<place>"))
                .containsExactly(
                        "column u is REGULAR %s, not REGULAR frozen<%s>".formatted(fields, fields));
        assertThat(difference("frozen<place>", "place"))
                .containsExactly(
                        "column u is REGULAR frozen<%s>, not REGULAR %s".formatted(fields, fields));
        assertThat(difference("list<int>", "frozen<list<int>>")).hasSize(1);
    }
}
