// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import java.io.IOException;

/** A sender has more parts, or parts with longer keys, than a receiver would take. */
public final class ManifestTooLargeException extends IOException {
    private static final long serialVersionUID = 1L;

    ManifestTooLargeException(int parts, long bytes) {
        super(
                "A stream of %d parts, whose list has %d bytes, is more than one stream has (%d parts, %d bytes)."
                        .formatted(
                                parts,
                                bytes,
                                ManifestCodec.MOST_SENT_PARTS,
                                ManifestCodec.MOST_BYTES));
    }
}
