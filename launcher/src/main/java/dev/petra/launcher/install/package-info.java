// SPDX-License-Identifier: Apache-2.0
/**
 * Puts Petra into a Cassandra that is installed already, and takes it out again.
 *
 * <p>{@link dev.petra.launcher.install.Installer} looks at the installation and says what it would
 * change, as a {@link dev.petra.launcher.install.Plan}; only {@link
 * dev.petra.launcher.install.Plan#apply} changes anything. Three files are concerned, in this
 * order, and in the reverse order when Petra is taken out:
 *
 * <ol>
 *   <li>the plugin jar in {@code lib}: without the other two it does nothing
 *   <li>{@code cassandra.yaml}: the memtable configuration {@code rocks}
 *   <li>{@code jvm-server.options}: the {@code -javaagent} line
 * </ol>
 *
 * <p>Lines in files of others are between {@code # BEGIN petra} and {@code # END petra}. Each file
 * is replaced by an atomic rename; after an interruption the same command does what is left.
 */
@NullMarked
package dev.petra.launcher.install;

import org.jspecify.annotations.NullMarked;
