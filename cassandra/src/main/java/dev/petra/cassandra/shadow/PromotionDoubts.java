// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.shadow;

import dev.petra.cassandra.gossip.Announcement;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.cassandra.gms.ApplicationState;
import org.apache.cassandra.gms.VersionedValue;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.schema.TableId;
import org.jspecify.annotations.Nullable;

/**
 * Why a table is not to be taken into the engine that its shadow is in. An ALTER does so on all
 * nodes, so the shadows of the others count as well: each node tells by gossip which of its shadows
 * differ or are not whole. Of nodes that tell nothing, as older versions, nothing is known.
 * Thread-safe.
 */
public final class PromotionDoubts {
    /**
     * The most tables of a kind that gossip names: it carries 65,535 bytes, and a table takes 37.
     * Of more than that, each of a node's shadows is in doubt.
     */
    static final int MOST_TABLES = 800;

    private static final String DIFFERENT = "different";
    private static final String INCOMPLETE = "incomplete";
    private static final String MANY = "many";

    private static final Announcement ANNOUNCEMENT =
            new Announcement(
                    ApplicationState.X9,
                    "which shadows are not to become their tables",
                    () -> said(Shadows.all()));

    private PromotionDoubts() {}

    /**
     * Tells the doubts about this node's shadows with the first that gossip says of it: differences
     * of before a restart are known by then.
     *
     * @param states what gossip begins with
     */
    public static void publishWith(Map<ApplicationState, VersionedValue> states) {
        ANNOUNCEMENT.publishWith(states);
    }

    /** Tells the doubts about this node's shadows, if they have changed. */
    public static void publish() {
        ANNOUNCEMENT.publish();
    }

    /** Why a table that has a shadow is not to be taken in, as far as this node knows; or null. */
    public static @Nullable String of(TableId table) {
        return of(table, Shadows.of(table), ANNOUNCEMENT.ofOthers());
    }

    /**
     * The same.
     *
     * @param own the shadow of this node
     * @param told by each other node
     */
    static @Nullable String of(
            TableId table, @Nullable Shadow own, Map<InetAddressAndPort, String> told) {
        if (own == null) return "this node has none";
        if (hasDiffered(own))
            return "it had another answer than the table, see petra.shadow_differences and the log";
        if (!own.isCaughtUp()) return "it does not have all of the table yet, see petra.shadow";
        String nodes = saying(told, DIFFERENT, table);
        if (!nodes.isEmpty())
            return "on "
                    + nodes
                    + " it had another answer than the table, as is said by gossip; see"
                    + " petra.shadow_differences and the log there";
        nodes = saying(told, INCOMPLETE, table);
        return nodes.isEmpty()
                ? null
                : "on "
                        + nodes
                        + " it does not have all of the table yet, as was said by gossip, which"
                        + " takes some seconds; see petra.shadow there";
    }

    private static boolean hasDiffered(Shadow shadow) {
        return shadow.statistics().different.sum() > 0;
    }

    /** What is told of these shadows. */
    static String said(Collection<Shadow> shadows) {
        List<TableId> different = new ArrayList<>();
        List<TableId> incomplete = new ArrayList<>();
        for (Shadow each : shadows) {
            // Here its table is in the engine already.
            if (each.isPromoted()) continue;
            if (hasDiffered(each)) different.add(each.cfs.metadata.id);
            else if (!each.isCaughtUp()) incomplete.add(each.cfs.metadata.id);
        }
        return said(different, incomplete);
    }

    /** {@code different:id,id;incomplete:id}, of which either may be missing; or {@code :many}. */
    static String said(List<TableId> different, List<TableId> incomplete) {
        return Stream.of(kind(DIFFERENT, different), kind(INCOMPLETE, incomplete))
                .filter(each -> !each.isEmpty())
                .collect(Collectors.joining(";"));
    }

    private static String kind(String name, List<TableId> tables) {
        if (tables.isEmpty()) return "";
        if (tables.size() > MOST_TABLES) return name + ":" + MANY;
        return name
                + ":"
                + tables.stream().map(PromotionDoubts::name).collect(Collectors.joining(","));
    }

    private static String name(TableId table) {
        return table.asUUID().toString();
    }

    /** The nodes that said this of a table, for a message; empty if none did. */
    private static String saying(Map<InetAddressAndPort, String> told, String kind, TableId table) {
        List<String> nodes = new ArrayList<>();
        told.forEach(
                (node, said) -> {
                    String address = node.getHostAddressAndPort();
                    List<String> tables = tables(said, kind);
                    if (tables.contains(name(table))) nodes.add(address);
                    else if (tables.contains(MANY))
                        nodes.add(
                                address
                                        + " (or that of another table: there are more than "
                                        + MOST_TABLES
                                        + ")");
                });
        return String.join(", ", nodes);
    }

    /** Of text that this version does not know, none. */
    private static List<String> tables(String said, String kind) {
        for (String each : said.split(";", -1))
            if (each.startsWith(kind + ":"))
                return List.of(each.substring(kind.length() + 1).split(",", -1));
        return List.of();
    }
}
