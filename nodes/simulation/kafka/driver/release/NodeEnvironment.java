// What Kafka's Raft client is given in the place of threads, sockets and clocks: virtual time, timers that are events,
// the queue of its messages, and a channel that collects its requests.
package org.apache.kafka.raft;

import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Readable;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.serialization.RecordSerde;
import splitbrain.simulation.Simulation;

import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;

final class NodeEnvironment implements Time {
    // Buffers as large as they need to be, instead of Kafka's pool of 8 MB each: the output stream grows when it must.
    static final MemoryPool POOL = new MemoryPool() {
        @Override public ByteBuffer tryAllocate(int bytes) { return ByteBuffer.allocate(Math.min(bytes, 1024)); }
        @Override public void release(ByteBuffer buffer) { }
        @Override public long size() { return Long.MAX_VALUE; }
        @Override public long availableMemory() { return Long.MAX_VALUE; }
        @Override public boolean isOutOfMemory() { return false; }
    };

    static final RecordSerde<Long> SERDE = new RecordSerde<>() {
        @Override public int recordSize(Long value, ObjectSerializationCache cache) { return Long.BYTES; }
        @Override public void write(Long value, ObjectSerializationCache cache, Writable out) { out.writeLong(value); }
        @Override public Long read(Readable in, int bytes) { return in.readLong(); }
    };

    /** The messages that wait for the client's next poll. */
    static final class Queue implements RaftMessageQueue {
        private final ArrayDeque<RaftMessage> messages = new ArrayDeque<>();
        private long timeoutMs;
        private boolean isAwake;
        private boolean hasDelivered;

        @Override
        public RaftMessage poll(long waitMs) {
            timeoutMs = waitMs;
            isAwake = false;
            RaftMessage next = messages.poll();
            hasDelivered = next != null;
            return next;
        }

        @Override public void add(RaftMessage message) { messages.add(message); }
        @Override public boolean isEmpty() { return messages.isEmpty(); }
        @Override public void wakeup() { isAwake = true; }

        /** How long the last poll was to wait. */
        long timeoutMs() {
            return timeoutMs;
        }

        boolean hasProgressed() {
            return hasDelivered || isAwake;
        }

        /** Whether the last poll found nothing, and nothing has come since. */
        boolean isIdle() {
            return !hasDelivered && !isAwake && messages.isEmpty();
        }
    }

    private final class Expirations implements ExpirationService {
        @Override
        public <T> CompletableFuture<T> failAfter(long timeoutMs) {
            CompletableFuture<T> future = new CompletableFuture<>();
            node.runAt(simulation.nowMs() + timeoutMs, () -> future.completeExceptionally(
                new org.apache.kafka.common.errors.TimeoutException("the simulated time is over")));
            return future;
        }
    }

    private final Simulation simulation;
    private final SimulatedNode node;
    private final NetworkChannel channel;
    private int correlation;

    NodeEnvironment(Simulation simulation, SimulatedNode node, Consumer<RaftRequest.Outbound> send) {
        this.simulation = simulation;
        this.node = node;
        // Its methods differ between releases: up to 3.7 it is told the voters' addresses and has no listener.
        channel = (NetworkChannel) Proxy.newProxyInstance(
            NetworkChannel.class.getClassLoader(), new Class<?>[] {NetworkChannel.class}, (proxy, method, values) -> {
                switch (method.getName()) {
                    case "newCorrelationId": return ++correlation;
                    case "listenerName": return Release.LISTENER;
                    case "send": send.accept((RaftRequest.Outbound) values[0]); return null;
                    default: return null;
                }
            });
    }

    NetworkChannel channel() {
        return channel;
    }

    ExpirationService expirations() {
        return new Expirations();
    }

    @Override
    public long milliseconds() {
        return simulation.originMs + simulation.nowMs();
    }

    @Override
    public long nanoseconds() {
        return milliseconds() * 1_000_000;
    }

    @Override
    public void sleep(long delayMs) {
        throw new UnsupportedOperationException("the Raft client does not sleep");
    }

    @Override
    public void waitObject(Object monitor, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException("the Raft client does not wait for a monitor");
    }
}
