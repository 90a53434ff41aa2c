// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.bulkload;

import dev.petra.cassandra.disk.MigrationMark;
import dev.petra.cassandra.disk.StoreLocation;
import dev.petra.cassandra.streaming.SliceStream;
import dev.petra.engine.CorruptStoreException;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.StoreSpec;
import dev.petra.engine.TableStore;
import dev.petra.engine.stream.SliceRanges;
import dev.petra.engine.stream.StreamSource;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.config.EncryptionOptions;
import org.apache.cassandra.dht.Range;
import org.apache.cassandra.dht.Token;
import org.apache.cassandra.exceptions.RequestValidationException;
import org.apache.cassandra.io.FSError;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.schema.TableMetadata;
import org.apache.cassandra.schema.TableMetadataRef;
import org.apache.cassandra.streaming.PreviewKind;
import org.apache.cassandra.streaming.SessionInfo;
import org.apache.cassandra.streaming.StreamException;
import org.apache.cassandra.streaming.StreamManager;
import org.apache.cassandra.streaming.StreamOperation;
import org.apache.cassandra.streaming.StreamPlan;
import org.apache.cassandra.streaming.StreamState;
import org.apache.cassandra.tools.LoaderOptions;
import org.jspecify.annotations.Nullable;

/**
 * {@code petra load}: sends what a {@link StoreWriter} wrote, or a snapshot, to the nodes that own
 * the data. A snapshot may come from another cluster, of another size. Each node checks all that it
 * receives before any of it becomes live, in steps of a few files. A node that fails may keep a
 * part of it, and the others keep theirs; loading again does no harm.
 *
 * <p>Takes the options of {@code sstableloader} and connects as it does; passwords may also be in
 * the variables {@code PETRA_CQL_PASSWORD}, {@code PETRA_TRUSTSTORE_PASSWORD} and {@code
 * PETRA_KEYSTORE_PASSWORD}. Do not use it in the process of a node.
 */
public final class StoreLoader {
    private final LoaderOptions options;
    private final Path directory;
    private final PrintStream out;

    private StoreLoader(LoaderOptions options, PrintStream out) {
        this.options = options;
        this.directory = options.directory.toPath();
        this.out = out;
    }

    /** A failure that the user can fix; the message says how. */
    private static final class LoadException extends Exception {
        private static final long serialVersionUID = 1L;

        LoadException(String message) {
            super(message);
        }
    }

    /**
     * Loads one directory and ends the process: with 0, or with 1 and the reason.
     *
     * @param args {@code sstableloader}'s options, and the directory
     */
    public static void main(String[] args) {
        // Netty's threads would keep the process alive.
        System.exit(load(args));
    }

    /**
     * Loads one directory and returns. Blocks until all nodes have taken the data, or one has
     * failed. The JVM needs {@code --add-exports java.base/jdk.internal.ref=ALL-UNNAMED} besides
     * what a {@link StoreWriter} needs. Invalid options end the process, as with {@code
     * sstableloader}.
     *
     * @param args {@code sstableloader}'s options, and the directory
     * @return 0 on success; 1 after a failure, whose reason is on the standard error output
     */
    public static int load(String... args) {
        DatabaseDescriptor.clientInitialization();
        try {
            new StoreLoader(options(args, System.getenv()), System.out).load();
            return 0;
        } catch (LoadException
                | IOException
                | CorruptStoreException
                | RequestValidationException
                | FSError e) {
            System.err.println("petra load: " + e.getMessage());
        } catch (InterruptedException | RuntimeException | Error e) {
            System.err.println("petra load: unexpected error:");
            e.printStackTrace();
        }
        return 1;
    }

    /**
     * By reflection, because Cassandra's builder of these options is not public.
     *
     * @param variables of the environment: passwords in them are for options that are not given,
     *     because all users of a machine see the options of a process
     */
    static LoaderOptions options(String[] args, Map<String, String> variables) {
        try {
            Object builder = LoaderOptions.class.getMethod("builder").invoke(null);
            Method parse = builder.getClass().getMethod("parseArgs", String[].class);
            parse.setAccessible(true);
            Object parsed = parse.invoke(builder, (Object) args);
            addPasswords(parsed, variables);
            Method build = builder.getClass().getMethod("build");
            build.setAccessible(true);
            return (LoaderOptions) build.invoke(parsed);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("This Cassandra has an unknown sstableloader", e);
        }
    }

    /** Not as further arguments: their parser takes quotes off, and a leading - for an option. */
    private static void addPasswords(Object builder, Map<String, String> variables)
            throws ReflectiveOperationException {
        String password = variables.get("PETRA_CQL_PASSWORD");
        // Cassandra refuses a password without a user.
        if (password != null
                && field(builder, "user").get(builder) != null
                && field(builder, "passwd").get(builder) == null)
            field(builder, "passwd").set(builder, password);

        Field options = field(builder, "clientEncOptions");
        EncryptionOptions encryption = (EncryptionOptions) options.get(builder);
        String truststore = variables.get("PETRA_TRUSTSTORE_PASSWORD");
        if (truststore != null && encryption.truststore_password == null)
            encryption = encryption.withTrustStorePassword(truststore);
        String keystore = variables.get("PETRA_KEYSTORE_PASSWORD");
        if (keystore != null && encryption.keystore_password == null)
            encryption = encryption.withKeyStorePassword(keystore);
        options.set(builder, encryption);
    }

    private static Field field(Object builder, String name) throws ReflectiveOperationException {
        Field field = builder.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    private void load() throws LoadException, IOException, InterruptedException {
        if (options.connectionsPerHost != 1)
            throw new LoadException(
                    "A node checks all that it is sent before any of it becomes live, so it comes"
                            + " by one connection: leave out --connections-per-host.");
        Path source = store();
        LoadClient client = new LoadClient(options);
        LoadClient.Target target =
                find(
                        client,
                        SchemaText.parse(Files.readString(directory.resolve(SchemaText.FILE))));
        try (LoadCopy copies =
                        LoadCopy.make(
                                directory, text -> System.err.println("petra load: " + text));
                StorageEngine engine = OfflineEngine.open()) {
            StoreSpec copy =
                    new StoreSpec(
                            copies.store(),
                            target.table().name,
                            1,
                            TableMetadataRef.forOfflineTools(target.table()),
                            () -> false,
                            // No compaction: the copy is read once.
                            () -> false);
            engine.copyStore(source, copy);
            try (TableStore store = engine.openStore(copy)) {
                send(client, engine, store, target);
            }
        }
    }

    /**
     * Finds the one store in the directory. It is whole if the schema is there: Cassandra writes it
     * when the copy of the store is complete, as a StoreWriter does.
     */
    private Path store() throws LoadException, IOException {
        Path stores = directory.resolve(StoreLocation.NAME);
        if (Files.exists(directory.resolve(StoreWriter.PARTIAL)))
            throw new LoadException(
                    directory
                            + " is incomplete: the StoreWriter that wrote it was not closed, or a"
                            + " row that it was given last or before failed. Delete the directory"
                            + " and write it again.");
        if (!Files.isDirectory(stores) || !Files.isReadable(directory.resolve(SchemaText.FILE)))
            throw new LoadException(
                    directory
                            + " must have a folder "
                            + StoreLocation.NAME
                            + " and a file "
                            + SchemaText.FILE
                            + ": name a snapshot (<table dir>/snapshots/<tag>) of a node that had"
                            + " data of the table, or what a StoreWriter wrote. For SSTables there"
                            + " is sstableloader.");
        try (Stream<Path> files = Files.list(directory)) {
            if (files.anyMatch(file -> file.toString().endsWith("-Data.db"))
                    || Files.exists(stores.resolve(MigrationMark.NAME)))
                throw new LoadException(
                        directory
                                + " was taken when the table was on its way into the engine or out"
                                + " of it, so it has SSTables as well, here or in the snapshot of"
                                + " the same name in another data directory. Move all of them to"
                                + " folders of their own, remove "
                                + stores.resolve(MigrationMark.NAME)
                                + ", load this, and load those by sstableloader, too.");
        }
        try (Stream<Path> files = Files.list(stores)) {
            List<Path> generations =
                    files.filter(file -> String.valueOf(file.getFileName()).matches("\\d+"))
                            .toList();
            if (generations.size() != 1)
                throw new LoadException(
                        stores + " has " + generations.size() + " stores where one belongs.");
            return generations.get(0);
        }
    }

    private LoadClient.Target find(LoadClient client, SchemaText schema)
            throws LoadException, IOException {
        String keyspace = Objects.requireNonNullElse(options.targetKeyspace, schema.keyspace());
        String name = Objects.requireNonNullElse(options.targetTable, schema.name());
        try {
            client.init(keyspace);
        } catch (RuntimeException e) {
            throw new LoadException(
                    "The cluster cannot be asked by "
                            + options.hosts
                            + ": "
                            + Objects.requireNonNullElse(e.getCause(), e).getMessage());
        }
        TableMetadataRef found = client.getTableMetadata(name);
        if (found == null)
            throw new LoadException(
                    "There is no table "
                            + keyspace
                            + "."
                            + name
                            + " in the cluster: create it, or name another by --target-keyspace and"
                            + " --target-table.");
        LoadClient.Target target = client.target(found.get());
        // copyStore checks the partitioner of the data.
        TableMetadata data = schema.table(target.table().partitioner, schema.types(target.types()));
        List<String> differences = SchemaCompatibility.difference(data, target.table());
        if (!differences.isEmpty())
            throw new LoadException(
                    "The data of "
                            + data
                            + " does not fit table "
                            + target.table()
                            + ": "
                            + String.join("; ", differences));
        return target;
    }

    private void send(
            LoadClient client, StorageEngine engine, TableStore store, LoadClient.Target target)
            throws LoadException, InterruptedException {
        StreamPlan plan =
                new StreamPlan(StreamOperation.BULK_LOAD, 1, false, null, PreviewKind.NONE)
                        .connectionFactory(client.getConnectionFactory());
        List<SliceStream> all = new ArrayList<>();
        List<StreamSource> sources = new ArrayList<>();
        // Nodes that own the same ranges share a plan.
        Map<List<Range<Token>>, List<SliceRanges>> plans = new HashMap<>();
        try {
            for (Map.Entry<InetAddressAndPort, Collection<Range<Token>>> each :
                    client.getEndpointToRangesMap().entrySet()) {
                InetAddressAndPort node = each.getKey();
                if (options.ignores.contains(node)) continue;
                if (target.without().contains(node.getAddress().getHostAddress()))
                    throw new LoadException(
                            "Node "
                                    + node
                                    + " does not have table "
                                    + target.table()
                                    + " in a storage engine, or not as a whole: wait for the end of"
                                    + " its migration (petra.migrations), or --ignore the node and"
                                    + " repair it afterwards.");
                List<SliceRanges> slices =
                        plans.computeIfAbsent(
                                Range.normalize(each.getValue()),
                                ranges -> SliceStream.plan(engine, store, ranges));
                if (slices.isEmpty()) continue;
                StreamSource source = store.send(slices);
                sources.add(source);
                List<SliceStream> streams = SliceStream.of(source, slices, () -> {});
                out.printf(
                        "%s: about %d bytes in %d slices%n", node, bytes(streams), streams.size());
                plan.transferStreams(node, List.copyOf(streams));
                all.addAll(streams);
            }
            if (all.isEmpty()) {
                out.println("There is nothing in it that a node would own.");
                return;
            }
            execute(plan, all);
        } finally {
            sources.forEach(StreamSource::close);
        }
    }

    private static long bytes(List<SliceStream> streams) {
        return streams.stream().mapToLong(SliceStream::getEstimatedSize).sum();
    }

    private void execute(StreamPlan plan, List<SliceStream> streams)
            throws LoadException, InterruptedException {
        DatabaseDescriptor.setEntireSSTableStreamThroughputOutboundMebibytesPerSec(
                options.entireSSTableThrottleMebibytes);
        DatabaseDescriptor.setEntireSSTableInterDCStreamThroughputOutboundMebibytesPerSec(
                options.entireSSTableInterDcThrottleMebibytes);
        // Their rate is that of the first load of this process otherwise.
        StreamManager.StreamRateLimiter.updateEntireSSTableThroughput();
        StreamManager.StreamRateLimiter.updateEntireSSTableInterDCThroughput();
        long begin = System.nanoTime();
        try {
            StreamState state = plan.execute().get();
            out.printf(
                    "Loaded %d bytes into %d node(s) in %d ms.%n",
                    bytes(streams),
                    state.sessions().size(),
                    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
        } catch (ExecutionException e) {
            throw new LoadException(
                    "Not all nodes have taken it: "
                            + failed(e.getCause())
                            + ". Their logs say why; if they could not be reached, the lines above"
                            + " do (nodes with TLS among each other want --conf-path). Load it"
                            + " again when that is mended; what is there already does no harm.");
        }
    }

    private static String failed(@Nullable Throwable cause) {
        if (!(cause instanceof StreamException failure)) return String.valueOf(cause);
        List<String> peers = new ArrayList<>();
        for (SessionInfo session : failure.finalState.sessions())
            if (session.isFailed()) peers.add(String.valueOf(session.peer));
        return String.join(", ", peers);
    }
}
