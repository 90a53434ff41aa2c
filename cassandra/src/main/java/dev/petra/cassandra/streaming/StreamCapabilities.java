// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.streaming;

import dev.petra.cassandra.engine.Engines;
import dev.petra.cassandra.gossip.Announcement;
import dev.petra.cassandra.host.Host;
import dev.petra.cassandra.table.EngineMemtable;
import dev.petra.cassandra.table.Unfit;
import dev.petra.engine.StorageEngine;
import dev.petra.engine.stream.StreamSource;
import dev.petra.streaming.wire.Frame;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.cassandra.db.ColumnFamilyStore;
import org.apache.cassandra.db.Keyspace;
import org.apache.cassandra.gms.ApplicationState;
import org.apache.cassandra.gms.VersionedValue;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.schema.KeyspaceMetadata;
import org.apache.cassandra.schema.TableId;
import org.apache.cassandra.schema.TableMetadata;
import org.jspecify.annotations.Nullable;

/**
 * Which nodes take which tables as slices of a storage engine: each says so by gossip. Others, and
 * those that have not heard of a change yet, get SSTables. Thread-safe.
 */
public final class StreamCapabilities {
    /** Whether this node sends and takes slices at all. */
    static final boolean ENABLED =
            Boolean.parseBoolean(System.getProperty(StreamSource.SLICES_PROPERTY, "true"));

    /**
     * The most tables that gossip announces: it carries a number of eight characters and a comma
     * for each, and 65,535 bytes in all. Tables beyond are streamed as SSTables, and cannot be
     * repaired incrementally.
     */
    static final int MOST_TABLES = 7_000;

    private static final Announcement ANNOUNCEMENT =
            new Announcement(
                    ApplicationState.X8,
                    "which tables are in storage engines",
                    StreamCapabilities::mine);

    private StreamCapabilities() {}

    /**
     * Says what this node takes with the first that gossip says of it. A peer that streams to a
     * node which was just restarted would otherwise send SSTables, and an incremental repair would
     * fail.
     *
     * @param states what gossip begins with
     */
    public static void publishWith(Map<ApplicationState, VersionedValue> states) {
        ANNOUNCEMENT.publishWith(states);
    }

    /** Says what this node takes, if that has changed. */
    public static void publish() {
        ANNOUNCEMENT.publish();
    }

    /**
     * {@code engine/format.protocol:table,table;engine/format.protocol:table}. A node that does not
     * find its own engine, format and protocol in it sends SSTables.
     */
    private static String mine() {
        List<ColumnFamilyStore> tables = new ArrayList<>();
        for (String keyspace : Host.current().userKeyspaces()) {
            KeyspaceMetadata metadata = Host.current().keyspace(keyspace);
            Keyspace loaded = Host.current().loadedKeyspace(keyspace);
            // It is dropped just now, or is being loaded with its stores, which may take long.
            if (metadata == null || loaded == null) continue;
            for (TableMetadata table : metadata.tables) {
                ColumnFamilyStore cfs = loaded.getIfExists(table.id);
                if (cfs != null) tables.add(cfs);
            }
        }
        return saidOf(tables);
    }

    /** The same of these tables, in engines or not. */
    static String saidOf(Iterable<ColumnFamilyStore> tables) {
        Map<String, List<TableId>> taken = new TreeMap<>();
        for (ColumnFamilyStore cfs : tables) {
            EngineMemtable receiver = receiver(cfs);
            if (receiver == null) continue;
            StorageEngine engine = Engines.get(receiver.engine());
            taken.computeIfAbsent(form(engine), name -> new ArrayList<>()).add(cfs.metadata.id);
        }
        return said(taken);
    }

    /** What is told of these tables, by the form in which they are taken. */
    static String said(Map<String, List<TableId>> tables) {
        List<String> forms = new ArrayList<>();
        int left = MOST_TABLES;
        for (Map.Entry<String, List<TableId>> form : tables.entrySet()) {
            List<TableId> told = form.getValue().subList(0, Math.min(left, form.getValue().size()));
            left -= told.size();
            if (!told.isEmpty())
                forms.add(
                        form.getKey()
                                + ":"
                                + told.stream()
                                        .map(StreamCapabilities::number)
                                        .collect(Collectors.joining(",")));
        }
        return String.join(";", forms);
    }

    private static String form(StorageEngine engine) {
        return engine.name() + "/" + engine.streamFormat() + "." + Frame.VERSION;
    }

    /** A short number. If two tables have the same one, a session may fail. */
    private static String number(TableId table) {
        return Integer.toHexString(table.asUUID().hashCode());
    }

    /** The memtable of a table that takes slices now, or null. */
    static @Nullable EngineMemtable receiver(ColumnFamilyStore cfs) {
        // The change log is fed by the write path.
        if (!ENABLED
                || cfs.getTracker() == null
                || cfs.metadata().params.cdc
                || (!cfs.metadata().indexes.isEmpty() && Unfit.reason(cfs) != null)) return null;
        if (!(cfs.getCurrentMemtable() instanceof EngineMemtable table) || table.departure() != 0)
            return null;
        if (table.generation().failure() != null) return null;
        return Engines.get(table.engine()).streamFormat() > 0 ? table : null;
    }

    /** Whether a node takes what this engine's store of a table sends. */
    public static boolean takes(InetAddressAndPort peer, StorageEngine engine, TableId table) {
        if (!ENABLED || engine.streamFormat() == 0) return false;
        String said = ANNOUNCEMENT.of(peer);
        return said != null && isSaid(said, form(engine), table);
    }

    /** Whether {@link #said} told of a table in that form. */
    static boolean isSaid(String said, String form, TableId table) {
        for (String each : said.split(";", -1)) {
            int colon = each.indexOf(':');
            if (colon > 0 && each.substring(0, colon).equals(form))
                return List.of(each.substring(colon + 1).split(",", -1)).contains(number(table));
        }
        return false;
    }
}
