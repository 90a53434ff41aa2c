// SPDX-License-Identifier: Apache-2.0
/** Clusters in containers, with the images and the command that users have. */
@NullMarked
package dev.petra.nodetests.container;

import org.jspecify.annotations.NullMarked;
