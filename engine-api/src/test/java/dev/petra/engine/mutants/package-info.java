// SPDX-License-Identifier: Apache-2.0
/**
 * Proves that the conformance kit notices: engines that are wrong in one way each, around the
 * reference engine, every one of which some test of the kit must find.
 */
package dev.petra.engine.mutants;
