// SPDX-License-Identifier: Apache-2.0
/**
 * The {@code petra} command, and the classes that run Cassandra nodes with Petra, each in a JVM of
 * its own.
 *
 * <p>A node has a directory with {@code conf}, {@code data}, {@code commitlog}, {@code logs} and so
 * on. The files in {@code conf} are written once; then the user may edit them. A {@link
 * dev.petra.launcher.NodeConfig} configures a node, and a {@link dev.petra.launcher.NodeProcess}
 * runs it:
 *
 * <pre>{@code
 * NodeConfig config =
 *         NodeConfig.builder(dir).nativePort(19042).storagePort(17000).jmxPort(17199).build();
 * NodeProcess node = new NodeProcess(config);
 * node.start();
 * node.awaitCql(Duration.ofMinutes(2));
 * node.nodetool("status");
 * node.kill(); // SIGKILL, as a crash
 * node.start(); // the restart after it
 * node.awaitCql(Duration.ofMinutes(2));
 * node.stop();
 * }</pre>
 *
 * <p>The jars come from a {@link dev.petra.launcher.Distribution}, which the build writes to {@code
 * launcher/target/petra}. Cassandra's jars are on the class path of the node only. This package
 * works on a node from outside: by processes, files, JMX and CQL.
 */
@NullMarked
package dev.petra.launcher;

import org.jspecify.annotations.NullMarked;
