// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import dev.petra.engine.TableStore;
import dev.petra.engine.conformance.Capabilities;
import dev.petra.engine.conformance.EngineUnderTest;
import dev.petra.engine.conformance.TestTable;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.streaming.loopback.Loopback;
import dev.petra.streaming.staging.IdleLimit;
import dev.petra.streaming.staging.IncomingSlices;
import dev.petra.streaming.staging.OutgoingSlice;
import dev.petra.streaming.staging.SlicePlan;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.openjdk.jmh.annotations.AuxCounters;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;

/**
 * Whole streams of one table without a node: sender and receiver in one JVM, one of Cassandra's own
 * connections between them, over the loopback device. From the plan of the sender's slices until
 * all is live in the receiver's store. {@code mvn -pl jmh -am -P stream-bench verify -DskipTests}
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Warmup(iterations = 2, time = 4)
@Measurement(iterations = 4, time = 6)
@Fork(1)
public class StreamBenchmark {
    /** Of values, before they are compressed. */
    private static final int TABLE_BYTES = 64 << 20;

    private static final int MOST_SLICES = 64;

    /** Of each row's value. */
    @Param({"100", "800"})
    public int rowBytes;

    /** How large the receiver makes its files, about; the sender has 8 of them in a slice. */
    @Param({"1MiB", "16MiB"})
    public String part = "";

    @SuppressWarnings("NullAway.Init") // JMH calls open before any benchmark.
    private EngineUnderTest kit;

    @SuppressWarnings("NullAway.Init")
    private TestTable table;

    @SuppressWarnings("NullAway.Init")
    private TableStore from;

    @SuppressWarnings("NullAway.Init")
    private TableStore to;

    @SuppressWarnings("NullAway.Init")
    private Loopback connection;

    /** What JMH divides by the time. */
    @AuxCounters(AuxCounters.Type.OPERATIONS)
    @State(Scope.Thread)
    public static class Sent {
        /** Of the stream. */
        public long slices;

        /** On the wire. */
        public long bytes;

        /** Of the values, before they are compressed. */
        public long valueBytes;

        /** For JMH. */
        public Sent() {}
    }

    /** For JMH. */
    public StreamBenchmark() {}

    /** Runs all of it. */
    public static void main(String[] args) throws RunnerException {
        var unused =
                new Runner(
                                new OptionsBuilder()
                                        .include(StreamBenchmark.class.getName())
                                        .shouldFailOnError(true)
                                        .build())
                        .run();
    }

    /** Fills the sender's store: values of which a half can be compressed. */
    @Setup
    public void open() {
        kit =
                new EngineUnderTest(
                        "rocks", Map.of("memory", "256MiB", "stream_part", part), Capabilities.ALL);
        table = TestTable.of("CREATE TABLE t (k bigint, c int, v blob, PRIMARY KEY (k, c))");
        from = kit.open(table);
        Random random = new Random(1);
        for (long i = 0; i < TABLE_BYTES / rowBytes; i++) {
            byte[] value = new byte[rowBytes];
            for (int b = 0; b < rowBytes / 2; b++) value[b] = (byte) random.nextInt();
            from.write(
                    table.update(i / 10)
                            .at(1)
                            .row((int) (i % 10))
                            .set("v", ByteBuffer.wrap(value))
                            .build());
        }
        from.flush();
        from.compact(List.of());
    }

    /** Closes both. */
    @TearDown
    public void close() {
        kit.close();
    }

    /** An empty store to send to. */
    @Setup(Level.Invocation)
    public void connect() {
        to = kit.open(table.twin());
        connection = new Loopback();
    }

    /** Ends it. */
    @TearDown(Level.Invocation)
    public void disconnect() {
        connection.close();
        to.drop();
    }

    /** One stream. */
    @Benchmark
    public void stream(Sent sent) throws IOException {
        Token least = table.metadata().partitioner.getMinimumToken();
        List<Range<Token>> everything = List.of(new Range<>(least, least));
        List<SliceRanges> plan =
                SlicePlan.of(from, everything, kit.engine().sliceBytes(), MOST_SLICES);
        List<OutgoingSlice> slices = OutgoingSlice.of(from.send(plan), plan);
        CompletableFuture<Void> sender =
                CompletableFuture.runAsync(() -> send(slices), task -> new Thread(task).start());
        try (IncomingSlices session = new IncomingSlices(head -> to.receive(head, everything))) {
            for (int i = 0; i < slices.size(); i++)
                sent.bytes += session.receive(connection.input(), (slice, head) -> bytes -> {});
            session.ingest();
        }
        sender.join();
        sent.slices += slices.size();
        sent.valueBytes += TABLE_BYTES;
    }

    private void send(List<OutgoingSlice> slices) {
        try {
            for (OutgoingSlice slice : slices)
                slice.write(
                        connection.output(),
                        Loopback.UNLIMITED,
                        () -> {},
                        bytes -> {},
                        new IdleLimit(Duration.ZERO).watch("", why -> {}));
        } catch (IOException e) {
            connection.cut();
            throw new CompletionException(e);
        } finally {
            slices.forEach(OutgoingSlice::finish);
        }
    }
}
