// SPDX-License-Identifier: Apache-2.0
/** Several nodes: streams, repair, topology, loading of snapshots, networks and disks that fail. */
@NullMarked
package dev.petra.nodetests.cluster;

import org.jspecify.annotations.NullMarked;
