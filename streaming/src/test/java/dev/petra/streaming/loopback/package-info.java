// SPDX-License-Identifier: Apache-2.0
/** Streams without a node: a kit that the tests of engines run, too. */
package dev.petra.streaming.loopback;
