// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import java.util.Iterator;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;

/** Finds the host once: a static final field costs its readers nothing. */
final class Hosts {
    static final Host CURRENT = find();

    private Hosts() {}

    private static Host find() {
        IllegalStateException none =
                new IllegalStateException(
                        "this version of Petra has no host for this Cassandra: see"
                                + " docs/compatibility.md");
        Iterator<Host> hosts =
                ServiceLoader.load(Host.class, Host.class.getClassLoader()).iterator();
        while (true) {
            try {
                if (!hosts.hasNext()) throw none;
                Host host = hosts.next();
                if (host.fits()) return host;
            } catch (ServiceConfigurationError e) {
                // That of another Cassandra, whose classes this one lacks.
                none.addSuppressed(e);
            }
        }
    }
}
