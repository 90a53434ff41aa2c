// SPDX-License-Identifier: Apache-2.0
/**
 * How a store's data travels between nodes, without either store knowing of sessions or sockets: in
 * slices of the ring, each by one connection.
 *
 * <pre>
 *   sender                                   receiver
 *   store.send(slices)                       store.receive(head, owned)
 *     -> StreamSource.head()       ------->    refused before a block is sent, or
 *     -> open(slice)               ------->    StreamSink.begin(slice)
 *        -> SliceReader.next()     ------->      SliceWriter.take(block)             staged
 *        -> null                   ------->      SliceWriter.end()
 *     ...                                      ...
 *     -> close(): let go of the store          verify(), ingest() until all is live
 *                                              or close(): as if nothing had come
 * </pre>
 */
@NullMarked
package dev.petra.engine.stream;

import org.jspecify.annotations.NullMarked;
