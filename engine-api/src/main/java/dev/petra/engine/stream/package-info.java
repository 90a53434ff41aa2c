// SPDX-License-Identifier: Apache-2.0
/**
 * How a store's data travels between nodes, without either store knowing of sessions or sockets.
 *
 * <pre>
 *   sender                                   receiver
 *   store.streamOut(ranges)                  store.streamIn(manifest, owned)
 *     -> OutgoingParts.manifest()  ------->    refused before a byte is sent, or
 *     -> transferTo(part, channel) ------->    IncomingParts.receive(part, channel)   staged
 *     ...                                      ...
 *     -> close(): unpin                        verify(), ingest() until all are live
 *                                              or close(): as if nothing had come
 * </pre>
 */
@NullMarked
package dev.petra.engine.stream;

import org.jspecify.annotations.NullMarked;
