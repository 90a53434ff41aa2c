// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.petra.engine.stream.StreamManifest;
import dev.petra.engine.stream.StreamPart;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import net.jpountz.lz4.LZ4Factory;
import org.apache.cassandra.schema.TableId;
import org.junit.jupiter.api.Test;

class ManifestTest {
    private static final int TRIALS = 3_000;

    /** Keys are random: they do not compress. */
    static StreamManifest manifest(int parts, int keyBytes, Random random) {
        List<StreamPart> all = new ArrayList<>();
        for (int i = 0; i < parts; i++) {
            byte[] first = new byte[random.nextInt(keyBytes + 1)];
            byte[] last = new byte[random.nextInt(keyBytes + 1)];
            random.nextBytes(first);
            random.nextBytes(last);
            all.add(
                    new StreamPart(
                            i,
                            random.nextLong(Long.MAX_VALUE),
                            random.nextLong(),
                            ByteBuffer.wrap(first),
                            ByteBuffer.wrap(last)));
        }
        return new StreamManifest(
                "rocks",
                3,
                TableId.fromUUID(new UUID(random.nextLong(), random.nextLong())),
                "täble",
                List.of(),
                ByteBuffer.wrap(new byte[] {7, 8}),
                all);
    }

    private static StreamManifest sent(ManifestPieces pieces, List<Integer> order)
            throws IOException {
        ManifestAssembly assembly = ManifestAssembly.begin(pieces.frame(0));
        boolean complete = false;
        for (int piece : order) {
            assertThat(complete).isFalse();
            complete = assembly.add(pieces.frame(piece), bytes(pieces.piece(piece)));
        }
        assertThat(complete).isTrue();
        return assembly.manifest();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }

    /** Frames for bytes that somebody else put together, the digest being right. */
    private static StreamManifest lie(byte[] payload) throws IOException {
        Frame frame =
                new Frame(
                        Frame.Kind.MANIFEST,
                        Frame.hash(ByteBuffer.wrap(payload)),
                        0,
                        1,
                        payload.length);
        ManifestAssembly assembly = ManifestAssembly.begin(frame);
        assertThat(assembly.add(frame, payload)).isTrue();
        assertThat(assembly.heapBytes()).isLessThan(129L << 20);
        return assembly.manifest();
    }

    private static byte[] packed(int saidLength, byte[] plain) {
        byte[] packed = LZ4Factory.fastestInstance().fastCompressor().compress(plain);
        return ByteBuffer.allocate(4 + packed.length).putInt(saidLength).put(packed).array();
    }

    @Test
    void arrivesInOnePieceOrMany() throws IOException {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int parts : new int[] {1, 2, 100, 5_000}) {
            StreamManifest manifest = manifest(parts, 2_000, random);
            ManifestPieces pieces = ManifestPieces.of(manifest);
            assertThat(pieces.count() > 1).as("seed %d", seed).isEqualTo(parts >= 5_000);
            List<Integer> order = new ArrayList<>();
            for (int i = 0; i < pieces.count(); i++) order.add(i);
            Collections.shuffle(order, random);
            assertThat(sent(pieces, order)).as("seed %d", seed).isEqualTo(manifest);
        }
    }

    /** 1 TiB of parts: what went with each before goes once. */
    @Test
    void ofATerabyteIsSmall() throws IOException {
        ManifestPieces pieces = ManifestPieces.of(manifest(16_384, 40, new Random(1)));
        long bytes = 0;
        for (int i = 0; i < pieces.count(); i++) bytes += pieces.frame(i).bytes();
        assertThat(bytes).isLessThan(2 << 20);
    }

    @Test
    void tooManyPartsAreRefusedBySender() {
        StreamManifest many =
                new StreamManifest(
                        "rocks",
                        3,
                        TableId.fromUUID(new UUID(1, 2)),
                        "t",
                        List.of(),
                        ByteBuffer.allocate(0),
                        manifest(ManifestCodec.MOST_PARTS + 1, 0, new Random(1)).parts());
        assertThatThrownBy(() -> ManifestPieces.of(many))
                .isInstanceOf(ManifestTooLargeException.class)
                .hasMessageContaining("262145");
        StreamManifest longKeys = manifest(3_000, 60_000, new Random(1));
        assertThatThrownBy(() -> ManifestPieces.of(longKeys))
                .isInstanceOf(ManifestTooLargeException.class);
    }

    @Test
    void aPieceTwiceOfAnotherOrOfAWrongLengthIsRefused() throws IOException {
        ManifestPieces pieces = ManifestPieces.of(manifest(5_000, 2_000, new Random(1)));
        ManifestPieces others = ManifestPieces.of(manifest(5_000, 2_000, new Random(2)));
        Frame first = pieces.frame(0);
        ManifestAssembly assembly = ManifestAssembly.begin(first);
        assembly.add(first, bytes(pieces.piece(0)));
        assertThatThrownBy(() -> assembly.check(first)).isInstanceOf(IOException.class);
        assertThatThrownBy(() -> assembly.check(others.frame(1))).isInstanceOf(IOException.class);
        for (Frame lie :
                List.of(
                        new Frame(first.kind(), first.digest(), 1, first.count() + 1, 1 << 20),
                        new Frame(first.kind(), first.digest(), 1, first.count(), (1 << 20) - 1),
                        new Frame(first.kind(), first.digest(), 1, first.count(), 1L << 40)))
            assertThatThrownBy(() -> assembly.check(lie))
                    .as("%s", lie)
                    .isInstanceOf(IOException.class);
        assertThatThrownBy(
                        () ->
                                ManifestAssembly.begin(
                                        new Frame(first.kind(), 1, 0, Integer.MAX_VALUE, 1 << 20)))
                .isInstanceOf(IOException.class);
    }

    @Test
    void aDamagedPieceIsRefused() throws IOException {
        ManifestPieces pieces = ManifestPieces.of(manifest(10, 20, new Random(1)));
        byte[] damaged = bytes(pieces.piece(0));
        damaged[damaged.length / 2] ^= 1;
        assertThatThrownBy(
                        () -> ManifestAssembly.begin(pieces.frame(0)).add(pieces.frame(0), damaged))
                .isInstanceOf(IOException.class)
                .hasMessageContaining("damaged");
    }

    @Test
    void bombsAreRefused() throws IOException {
        byte[] zeros = new byte[1 << 20];
        byte[] bomb = packed(zeros.length, zeros);
        assertThat(bomb.length).isLessThan(5_000);
        // Decompresses, and is no manifest.
        assertThatThrownBy(() -> lie(bomb)).isInstanceOf(IOException.class);
        for (int said :
                new int[] {
                    -1,
                    0,
                    1,
                    zeros.length - 1,
                    zeros.length + 1,
                    2 * zeros.length,
                    65 << 20,
                    Integer.MAX_VALUE
                })
            assertThatThrownBy(() -> lie(packed(said, zeros)))
                    .as("%d", said)
                    .isInstanceOf(IOException.class);
        for (int length = 0; length < 4; length++) {
            byte[] cut = new byte[length];
            assertThatThrownBy(() -> lie(cut)).isInstanceOf(IOException.class);
        }
    }

    /**
     * Lengths and counts that lie, at each place; all bytes but those of a manifest are refused.
     */
    @Test
    void whateverThePeerSaysEndsInAnIOException() throws IOException {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        byte[] plain = ManifestCodec.encode(manifest(3, 20, random));
        for (int place = 0; place <= plain.length - 4; place++)
            for (int value : new int[] {Integer.MAX_VALUE, -1, Integer.MIN_VALUE, 0x7fffff}) {
                byte[] lies = ByteBuffer.wrap(plain.clone()).putInt(place, value).array();
                decode(lies, "place " + place);
            }
        for (int i = 0; i < TRIALS; i++) {
            byte[] lies = plain.clone();
            for (int n = random.nextInt(6); n >= 0; n--)
                lies[random.nextInt(lies.length)] = (byte) random.nextInt();
            byte[] cut = java.util.Arrays.copyOf(lies, random.nextInt(lies.length + 8));
            decode(cut, "seed " + seed);
        }
    }

    private static void decode(byte[] lies, String what) {
        try {
            StreamManifest read = lie(packed(lies.length, lies));
            assertThat(read.parts()).as(what).hasSizeLessThan(4);
        } catch (IOException refused) {
            assertThat(refused.getMessage()).as(what).isNotBlank();
        }
    }
}
