// SPDX-License-Identifier: Apache-2.0
/**
 * The stored bytes: keys, fragments, column ids and references to large cells, as {@code
 * docs/FORMAT.md} describes them. Nothing here opens a database; the same bytes are read and
 * written by {@code src/main/native}.
 */
@NullMarked
package dev.petra.engine.rocks.format;

import org.jspecify.annotations.NullMarked;
