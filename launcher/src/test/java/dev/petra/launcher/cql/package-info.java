// SPDX-License-Identifier: Apache-2.0
/** Tests of splitting CQL scripts and of writing rows. */
@NullMarked
package dev.petra.launcher.cql;

import org.jspecify.annotations.NullMarked;
