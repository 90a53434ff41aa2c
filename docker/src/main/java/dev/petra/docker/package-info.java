// SPDX-License-Identifier: Apache-2.0
/**
 * A node in a container, for tests with Testcontainers:
 *
 * <pre>
 * try (PetraContainer node = new PetraContainer("petra")) {
 *   node.start();
 *   CqlSession session = CqlSession.builder()
 *       .addContactPoint(node.contactPoint())
 *       .withLocalDatacenter(node.localDatacenter())
 *       .build();
 * }
 * </pre>
 */
@NullMarked
package dev.petra.docker;

import org.jspecify.annotations.NullMarked;
