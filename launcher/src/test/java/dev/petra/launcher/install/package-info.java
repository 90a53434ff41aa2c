// SPDX-License-Identifier: Apache-2.0
@NullMarked
package dev.petra.launcher.install;

import org.jspecify.annotations.NullMarked;
