// SPDX-License-Identifier: Apache-2.0
/** Tests of splitting CQL and of showing rows. */
@NullMarked
package dev.petra.launcher.cql;

import org.jspecify.annotations.NullMarked;
