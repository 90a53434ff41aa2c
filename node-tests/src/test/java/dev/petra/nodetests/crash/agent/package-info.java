// SPDX-License-Identifier: Apache-2.0
/** What runs inside a node to end it at a chosen step. */
package dev.petra.nodetests.crash.agent;
