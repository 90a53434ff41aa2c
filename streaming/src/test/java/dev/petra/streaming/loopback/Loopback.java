// SPDX-License-Identifier: Apache-2.0
package dev.petra.streaming.loopback;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.buffer.ByteBuf;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.util.ReferenceCountUtil;
import java.net.InetAddress;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.cassandra.net.AsyncStreamingInputPlus;
import org.apache.cassandra.net.AsyncStreamingOutputPlus;
import org.apache.cassandra.streaming.StreamingDataOutputPlus;

/** Both ends of one of Cassandra's streaming connections, in one JVM, over the loopback device. */
public final class Loopback implements AutoCloseable {
    /** No limit to the bytes a second. */
    public static final StreamingDataOutputPlus.RateLimiter UNLIMITED =
            new StreamingDataOutputPlus.RateLimiter() {
                @Override
                public void acquire(int bytes) {}

                @Override
                public boolean isRateLimited() {
                    return false;
                }
            };

    private final NioEventLoopGroup threads = new NioEventLoopGroup(2);
    private final Channel server;
    private final Channel client;
    private final AsyncStreamingInputPlus input;
    private final AsyncStreamingOutputPlus output;

    /** Connects. */
    public Loopback() {
        this(0);
    }

    /**
     * @param bytes of the kernel's buffers at either end, about; 0 for the usual
     */
    Loopback(int bytes) {
        CompletableFuture<AsyncStreamingInputPlus> accepted = new CompletableFuture<>();
        ServerBootstrap listening = new ServerBootstrap().group(threads);
        Bootstrap connecting = new Bootstrap().group(threads);
        if (bytes > 0) {
            listening.option(ChannelOption.SO_RCVBUF, bytes);
            connecting.option(ChannelOption.SO_SNDBUF, bytes);
        }
        server =
                listening
                        .channel(NioServerSocketChannel.class)
                        .childHandler(
                                new ChannelInitializer<>() {
                                    @Override
                                    protected void initChannel(Channel channel) {
                                        AsyncStreamingInputPlus end =
                                                new AsyncStreamingInputPlus(channel);
                                        channel.pipeline().addLast(new Appending(end));
                                        accepted.complete(end);
                                    }
                                })
                        .bind(InetAddress.getLoopbackAddress(), 0)
                        .syncUninterruptibly()
                        .channel();
        client =
                connecting
                        .channel(NioSocketChannel.class)
                        .handler(new ChannelInboundHandlerAdapter())
                        .connect(server.localAddress())
                        .syncUninterruptibly()
                        .channel();
        input = accepted.join();
        output = new AsyncStreamingOutputPlus(client);
    }

    /** As Cassandra's own handler does. */
    static final class Appending extends ChannelInboundHandlerAdapter {
        private final AsyncStreamingInputPlus input;

        Appending(AsyncStreamingInputPlus input) {
            this.input = input;
        }

        @Override
        public void channelRead(ChannelHandlerContext context, Object message) {
            if (!input.append((ByteBuf) message)) ReferenceCountUtil.release(message);
        }

        @Override
        public void channelInactive(ChannelHandlerContext context) {
            input.requestClosure();
        }

        @Override
        public void exceptionCaught(ChannelHandlerContext context, Throwable cause) {
            input.requestClosure();
        }
    }

    /** Where one writes. */
    public StreamingDataOutputPlus output() {
        return output;
    }

    /** Where the other reads. */
    public AsyncStreamingInputPlus input() {
        return input;
    }

    /** Breaks the connection: what is under way at the reader's end fails. */
    public void cut() {
        client.close().syncUninterruptibly();
    }

    /** As {@link #cut}, and waits for nothing. */
    void cutSoon() {
        var unused = client.close();
    }

    @Override
    public void close() {
        output.discard();
        cut();
        server.close().syncUninterruptibly();
        // Who does not read is not told that the other end is closed.
        input.requestClosure();
        input.close();
        threads.shutdownGracefully(0, 5, TimeUnit.SECONDS).syncUninterruptibly();
    }
}
