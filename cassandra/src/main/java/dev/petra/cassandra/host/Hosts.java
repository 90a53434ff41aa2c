// SPDX-License-Identifier: Apache-2.0
package dev.petra.cassandra.host;

import java.util.ServiceLoader;

/** Finds the host once: a static final field costs its readers nothing. */
final class Hosts {
    static final Host CURRENT = find();

    private Hosts() {}

    private static Host find() {
        for (Host host : ServiceLoader.load(Host.class, Host.class.getClassLoader()))
            if (host.fits()) return host;
        throw new IllegalStateException(
                "this version of Petra has no host for this Cassandra: see docs/compatibility.md");
    }
}
