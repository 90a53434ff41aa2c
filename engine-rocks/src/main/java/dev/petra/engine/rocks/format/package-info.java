// SPDX-License-Identifier: Apache-2.0
/**
 * Encodes and decodes keys and values as {@code docs/FORMAT.md} describes them. Nothing here opens
 * a database. The C++ code in {@code src/main/native} reads and writes the same bytes.
 */
@NullMarked
package dev.petra.engine.rocks.format;

import org.jspecify.annotations.NullMarked;
