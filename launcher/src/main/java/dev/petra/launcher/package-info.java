// SPDX-License-Identifier: Apache-2.0
/**
 * Runs real Cassandra nodes with Petra in them, each as a JVM of its own, and is the {@code petra}
 * command.
 *
 * <p>A node lives in a directory: {@code conf} (written once, then its owner's), {@code data},
 * {@code commitlog}, {@code logs} and so on. A {@link dev.petra.launcher.NodeConfig} says what is
 * asked of it, a {@link dev.petra.launcher.NodeProcess} runs it:
 *
 * <pre>{@code
 * NodeConfig config =
 *         NodeConfig.builder(dir).nativePort(19042).storagePort(17000).jmxPort(17199).build();
 * NodeProcess node = new NodeProcess(config);
 * node.start();
 * node.awaitCql(Duration.ofMinutes(2));
 * node.nodetool("status");
 * node.kill(); // what a crash is
 * node.start(); // and the restart after it
 * node.awaitCql(Duration.ofMinutes(2));
 * node.stop();
 * }</pre>
 *
 * <p>The jars come from a {@link dev.petra.launcher.Distribution}, which the build leaves in {@code
 * launcher/target/petra}. Cassandra's are on the node's class path only: this package talks to a
 * node as anyone outside would, by processes, files, JMX and CQL.
 */
@NullMarked
package dev.petra.launcher;

import org.jspecify.annotations.NullMarked;
