// SPDX-License-Identifier: Apache-2.0
/** Tables on their way into an engine and out of it, while they are used. */
@NullMarked
package dev.petra.nodetests.migration;

import org.jspecify.annotations.NullMarked;
