// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh.querylog;

import com.datastax.oss.driver.api.core.ConsistencyLevel;
import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DefaultConsistencyLevel;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.BatchableStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatement;
import com.datastax.oss.driver.api.core.cql.BoundStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.cql.SimpleStatementBuilder;
import com.datastax.oss.driver.api.core.cql.Statement;
import com.datastax.oss.driver.api.core.cql.StatementBuilder;
import com.datastax.oss.driver.api.core.type.DataType;
import com.datastax.oss.driver.api.core.type.DataTypes;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Asks a node what another one was asked: with the values, the page, the timestamp and the time of
 * expiry of that request, at LOCAL_ONE. Thread-safe. It keeps each text with values that it was
 * given prepared; as many as the log has.
 */
public final class Player {
    private static final ConsistencyLevel LEVEL = DefaultConsistencyLevel.LOCAL_ONE;

    /** Of which clients write empty values. Others that are empty in a log were not set. */
    private static final Set<DataType> EMPTY =
            Set.of(DataTypes.TEXT, DataTypes.ASCII, DataTypes.BLOB);

    /** The driver takes 0 for its own default. */
    private static final int NOT_PAGED = Integer.MAX_VALUE;

    private final CqlSession session;
    private final Map<Prepared, CompletableFuture<PreparedStatement>> prepared =
            new ConcurrentHashMap<>();

    private record Prepared(@Nullable String keyspace, String cql) {}

    /**
     * @param session to one node, by version 5 of the protocol or later, which can say the keyspace
     *     and the time of expiry with each request; the caller closes it
     */
    public Player(CqlSession session) {
        this.session = session;
    }

    /** Asks; what fails is in the result. */
    CompletionStage<AsyncResultSet> ask(LoggedQuery query) {
        try {
            CompletionStage<? extends Statement<?>> statement =
                    query.batch() == null ? single(query) : batch(query, query.batch());
            return statement.thenCompose(session::executeAsync);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    private CompletionStage<Statement<?>> single(LoggedQuery query) {
        return part(query, query.parts().get(0))
                .thenApply(
                        part -> {
                            LoggedQuery.Parameters parameters = query.parameters();
                            StatementBuilder<?, ?> builder =
                                    part instanceof SimpleStatement simple
                                            // The driver's copy has none.
                                            ? SimpleStatement.builder(simple)
                                                    .setKeyspace(simple.getKeyspace())
                                            : new BoundStatementBuilder((BoundStatement) part);
                            builder.setPageSize(
                                            parameters.pageSize() > 0
                                                    ? parameters.pageSize()
                                                    : NOT_PAGED)
                                    .setPagingState(parameters.pagingState());
                            return with(builder, parameters).build();
                        });
    }

    private CompletionStage<Statement<?>> batch(LoggedQuery query, String type) {
        List<CompletableFuture<? extends BatchableStatement<?>>> parts = new ArrayList<>();
        for (LoggedQuery.Part part : query.parts())
            parts.add(part(query, part).toCompletableFuture());
        return CompletableFuture.allOf(parts.toArray(CompletableFuture[]::new))
                .thenApply(
                        all -> {
                            BatchStatementBuilder builder =
                                    BatchStatement.builder(DefaultBatchType.valueOf(type));
                            for (CompletableFuture<? extends BatchableStatement<?>> part : parts)
                                builder.addStatement(part.join());
                            for (LoggedQuery.Part part : query.parts()) {
                                String keyspace = keyspace(query, part);
                                if (keyspace != null)
                                    builder.setKeyspace(CqlIdentifier.fromInternal(keyspace));
                            }
                            return with(builder, query.parameters()).build();
                        });
    }

    private static <B extends StatementBuilder<?, ?>> B with(
            B builder, LoggedQuery.Parameters parameters) {
        builder.setConsistencyLevel(LEVEL);
        if (parameters.timestamp() != Long.MIN_VALUE)
            builder.setQueryTimestamp(parameters.timestamp());
        if (parameters.nowInSeconds() != Long.MIN_VALUE)
            builder.setNowInSeconds((int) parameters.nowInSeconds());
        return builder;
    }

    private CompletionStage<? extends BatchableStatement<?>> part(
            LoggedQuery query, LoggedQuery.Part part) {
        String keyspace = keyspace(query, part);
        SimpleStatement simple = simple(keyspace, part.cql());
        if (part.values().isEmpty()) return CompletableFuture.completedFuture(simple);
        return prepared(new Prepared(keyspace, part.cql()), simple)
                .thenApply(
                        statement -> {
                            BoundStatementBuilder bound = statement.boundStatementBuilder();
                            for (int i = 0; i < part.values().size(); i++) {
                                ByteBuffer value = part.values().get(i);
                                DataType type = statement.getVariableDefinitions().get(i).getType();
                                if (value == null) bound = bound.setToNull(i);
                                else if (value.hasRemaining() || EMPTY.contains(type))
                                    bound = bound.setBytesUnsafe(i, value.duplicate());
                            }
                            return bound.build();
                        });
    }

    /** A statement; one that could not be prepared is tried again with the next request of it. */
    private CompletableFuture<PreparedStatement> prepared(Prepared text, SimpleStatement simple) {
        CompletableFuture<PreparedStatement> statement =
                prepared.computeIfAbsent(
                        text, key -> session.prepareAsync(simple).toCompletableFuture());
        return statement.whenComplete(
                (done, failed) -> {
                    if (failed != null) prepared.remove(text, statement);
                });
    }

    /**
     * Of a statement that needs one: a client may be connected to a keyspace that is not there, and
     * ask other tables by their full names.
     */
    private static @Nullable String keyspace(LoggedQuery query, LoggedQuery.Part part) {
        return CqlText.of(part.cql()).tables().stream().allMatch(name -> name.keyspace() != null)
                ? null
                : query.keyspace();
    }

    private static SimpleStatement simple(@Nullable String keyspace, String cql) {
        SimpleStatementBuilder builder = SimpleStatement.builder(cql);
        if (keyspace != null) builder.setKeyspace(CqlIdentifier.fromInternal(keyspace));
        return builder.build();
    }
}
