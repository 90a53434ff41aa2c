// SPDX-License-Identifier: Apache-2.0
/**
 * Indexes by term of one store: which rows a term was written for. The host derives the terms, the
 * store keeps them in order, in one batch with their row.
 *
 * <p>A write reads nothing, so an entry says that its row had the term once: whoever finds one
 * reads the row and checks. An entry too many costs that read; an entry too few is a wrong answer.
 */
@NullMarked
package dev.petra.engine.index;

import org.jspecify.annotations.NullMarked;
