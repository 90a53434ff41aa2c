// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.gossip;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import org.apache.cassandra.gms.ApplicationState;
import org.apache.cassandra.gms.EndpointState;
import org.apache.cassandra.gms.Gossiper;
import org.apache.cassandra.gms.VersionedValue;
import org.apache.cassandra.locator.InetAddressAndPort;
import org.apache.cassandra.service.StorageService;
import org.apache.cassandra.utils.FBUtilities;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What this node tells the others in one state of gossip, and what they tell. Thread-safe. */
public final class Announcement {
    private static final Logger logger = LoggerFactory.getLogger(Announcement.class);

    private final ApplicationState state;
    private final String about;
    private final Supplier<String> mine;
    private String published = "";

    /**
     * @param state one that Cassandra leaves free
     * @param about what others are told, in a sentence
     * @param mine what this node has to tell now: at most 65,535 bytes, because Cassandra writes it
     *     with its length in two bytes
     */
    public Announcement(ApplicationState state, String about, Supplier<String> mine) {
        this.state = state;
        this.about = about;
        this.mine = mine;
    }

    /**
     * Tells it with the first that gossip says of this node.
     *
     * @param states what gossip begins with
     */
    public synchronized void publishWith(Map<ApplicationState, VersionedValue> states) {
        try {
            String now = mine.get();
            if (now.isEmpty()) return;
            states.put(state, value(now));
            published = now;
        } catch (RuntimeException e) {
            notTold(e);
        }
    }

    /** Tells it, if it has changed. */
    public void publish() {
        try {
            publishIfChanged();
        } catch (RuntimeException e) {
            notTold(e);
        }
    }

    private void notTold(RuntimeException e) {
        logger.error(
                "Gossip cannot tell the other nodes {}. It is tried every second; until then they"
                        + " know the last that this node has told them",
                about,
                e);
    }

    private synchronized void publishIfChanged() {
        InetAddressAndPort me = FBUtilities.getBroadcastAddressAndPort();
        if (!Gossiper.instance.isEnabled()
                || Gossiper.instance.getEndpointStateForEndpoint(me) == null) return;
        String now = mine.get();
        if (now.equals(published)) return;
        Gossiper.instance.addLocalApplicationState(state, value(now));
        published = now;
        logger.debug("Other nodes are told: {}", now);
    }

    private static VersionedValue value(String text) {
        // Cassandra makes values by what they are for; this is any text.
        return StorageService.instance.valueFactory.rack(text);
    }

    /** What a node has told, or null. */
    public @Nullable String of(InetAddressAndPort node) {
        EndpointState told = Gossiper.instance.getEndpointStateForEndpoint(node);
        VersionedValue value = told == null ? null : told.getApplicationState(state);
        return value == null ? null : value.value;
    }

    /**
     * What each other node has told last; also those that are down, as long as they are in the
     * cluster.
     */
    public Map<InetAddressAndPort, String> ofOthers() {
        Set<InetAddressAndPort> others = new TreeSet<>(Gossiper.instance.getLiveMembers());
        others.addAll(Gossiper.instance.getUnreachableMembers());
        others.remove(FBUtilities.getBroadcastAddressAndPort());
        Map<InetAddressAndPort, String> told = new LinkedHashMap<>();
        for (InetAddressAndPort each : others) {
            EndpointState is = Gossiper.instance.getEndpointStateForEndpoint(each);
            // Gossip knows those that have left for days.
            if (is == null || Gossiper.instance.isDeadState(is)) continue;
            String said = of(each);
            if (said != null) told.put(each, said);
        }
        return told;
    }
}
