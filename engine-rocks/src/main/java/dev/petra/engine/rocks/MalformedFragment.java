// SPDX-License-Identifier: Apache-2.0
package dev.petra.engine.rocks;

import java.io.Serial;

/** Bytes of a value that are no fragments; the reader that knows the key says where. */
final class MalformedFragment extends RuntimeException {
    @Serial private static final long serialVersionUID = 1;

    MalformedFragment(String message) {
        super(message);
    }

    MalformedFragment(String message, Throwable cause) {
        super(message, cause);
    }

    MalformedFragment(Throwable cause) {
        super(String.valueOf(cause.getMessage()), cause);
    }
}
