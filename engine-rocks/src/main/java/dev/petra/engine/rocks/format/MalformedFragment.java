// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks.format;

import java.io.Serial;

/** The bytes of a value are not valid fragments. The caller, which knows the key, reports it. */
public final class MalformedFragment extends RuntimeException {
    @Serial private static final long serialVersionUID = 1;

    public MalformedFragment(String message) {
        super(message);
    }

    public MalformedFragment(String message, Throwable cause) {
        super(message, cause);
    }

    public MalformedFragment(Throwable cause) {
        super(String.valueOf(cause.getMessage()), cause);
    }
}
