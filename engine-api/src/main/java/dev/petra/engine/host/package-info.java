// SPDX-License-Identifier: Apache-2.0
/**
 * What the major releases of Cassandra have in forms that no one compiled call fits, so that
 * engines are compiled once and run in all of them. Here the members are looked up by their names
 * when a class is loaded, and are called by constant method handles, which the JVM compiles nearly
 * as it does direct calls: it has no profile of the classes that it meets there.
 */
@NullMarked
package dev.petra.engine.host;

import org.jspecify.annotations.NullMarked;
