// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import dev.petra.streaming.staging.IdleLimit;
import java.time.Duration;

/** For slices whose peer may take as long as it likes. */
public final class Patience {
    private Patience() {}

    /** Ends no wait of a slice that goes out. */
    public static IdleLimit.Wait withoutEnd() {
        return new IdleLimit(Duration.ZERO).watch("nothing is awaited", why -> {});
    }
}
