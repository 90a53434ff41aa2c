// SPDX-License-Identifier: Apache-2.0
package dev.petra.jmh;

import java.util.function.DoubleSupplier;

/**
 * What is done again until it is no faster any more: what is compiled and cached by then is not
 * measured.
 *
 * @param windows how often it was done
 * @param isSteady whether the last two were as fast; else there were as many as may be
 */
record WarmUp(int windows, boolean isSteady) {
    /** The metric of how often. */
    static final String WINDOWS = "warm-up";

    /** The metric of whether it was ended before it was steady. */
    static final String UNSTEADY = "warm-up not steady";

    /** By how much the rates of two differ that are as fast. */
    private static final double TOLERANCE = 0.1;

    /**
     * Warms up.
     *
     * @param window does it for a time, and returns its rate
     * @param most how often at most
     */
    static WarmUp run(DoubleSupplier window, int most) {
        double before = 0;
        for (int windows = 1; windows <= most; windows++) {
            double rate = window.getAsDouble();
            if (agree(before, rate)) return new WarmUp(windows, true);
            before = rate;
        }
        return new WarmUp(most, false);
    }

    /** Whether two rates are as good as equal. */
    static boolean agree(double one, double other) {
        return Math.abs(one - other) <= TOLERANCE * Math.max(one, other) && one > 0;
    }

    /** What reports say of it. */
    void report() {
        StallProfiler.add(WINDOWS, windows, "windows");
        StallProfiler.add(UNSTEADY, isSteady ? 0 : 1, "rounds");
    }
}
