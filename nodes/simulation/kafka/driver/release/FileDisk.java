// A disk in a directory: the log and the quorum state that Kafka's servers use, in files.
//
// The log is KafkaRaftLog (from 4.3) or KafkaMetadataLog (before), which are found by reflection: they need the jars of
// the broker. Its client calls it through a proxy that follows what the log has and how much of it is synced. A process
// that is killed leaves the files as they are; the log is then recovered from its first segment, as a server does. A
// power failure cuts each segment where it was last synced; indexes and checkpoints stay, newer than their segments.
package org.apache.kafka.raft;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.util.Scheduler;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Stream;

final class FileDisk implements Disk {
    private static final String SEGMENT = ".log";
    private static final String QUORUM_STATE = "quorum-state";
    // The calls that change the log, by what they do.
    private static final Set<String> TRUNCATES = Set.of("truncateTo", "truncateToEndOffset", "truncateToLatestSnapshot");
    private static final Set<String> CHANGES = Set.of("appendAsLeader", "appendAsFollower", "deleteBeforeSnapshot", "maybeClean");

    private final SimulatedNode node;
    private final NodeEnvironment environment;
    private final Object config;
    private final Path directory;
    private final TopicPartition partition;
    private final Uuid topic;
    private final Object proxy;

    // Kafka's log while a process uses it, otherwise null.
    private Object log;
    private QuorumStateStore store;
    private long startOffset;
    private final List<LoggedBatch> batches = new ArrayList<>();
    // Of each segment, so many bytes are synced.
    private final Map<Path, Long> synced;

    /** parent: a directory for this disk alone. synced: what is synced there. Throws ConfigException for an invalid
     * property. */
    FileDisk(SimulatedNode node, NodeEnvironment environment, Map<String, String> properties, Path parent,
             TopicPartition partition, Uuid topic, Map<Path, Long> synced) {
        this.synced = new HashMap<>(synced);
        this.node = node;
        this.environment = environment;
        config = ServerLog.config(properties, node.id);
        this.partition = partition;
        this.topic = topic;
        directory = parent.resolve(partition.toString());
        proxy = Proxy.newProxyInstance(Release.LOG.getClassLoader(), new Class<?>[] {Release.LOG},
            (self, method, arguments) -> call(method, arguments));
        make(directory);
        store = ServerLog.store(quorumState());
    }

    private static void make(Path directory) {
        try {
            Files.createDirectories(directory);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private Path quorumState() {
        return directory.resolve(QUORUM_STATE);
    }

    @Override
    public Object log() {
        return proxy;
    }

    @Override
    public QuorumStateStore store() {
        return store;
    }

    @Override
    public void open() {
        log = ServerLog.open(partition, topic, directory.toFile(), environment, new Tasks(), config, node.id);
        forgetFrom(0);  // what recovery found may differ
        follow();
        noteCut();
    }

    @Override
    public void close(boolean isClean) {
        if (log == null) return;
        if (isClean) Release.call(log, "close");
        else ServerLog.closeHandlers(log);
        log = null;
    }

    @Override
    public void loseUnsynced() {
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : files.filter(FileDisk::isSegment).toList()) cut(file, synced.getOrDefault(file, 0L));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        open();
        close(false);
    }

    private static boolean isSegment(Path file) {
        return file.toString().endsWith(SEGMENT);
    }

    private static void cut(Path file, long bytes) throws IOException {
        if (bytes == 0) Files.delete(file);
        else if (Files.size(file) > bytes) {
            try (RandomAccessFile segment = new RandomAccessFile(file.toFile(), "rw")) {
                segment.setLength(bytes);
            }
        }
    }

    @Override
    public void loseQuorumState() {
        try {
            Files.deleteIfExists(quorumState());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        store = ServerLog.store(quorumState());
    }

    @Override
    public Map<Path, Long> synced() {
        return synced;
    }

    @Override
    public void discard() {
        close(false);
        try {
            Utils.delete(directory.getParent().toFile());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public long startOffset() {
        return startOffset;
    }

    @Override
    public List<LoggedBatch> batches() {
        return batches;
    }

    @Override
    public LoggedBatch read(Object batch) {
        return (LoggedBatch) batch;
    }

    // ---------------------------------------------------------------- following the log

    /** A call of Kafka's client. */
    private Object call(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(log, arguments);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        } finally {
            String name = method.getName();
            if (CHANGES.contains(name) || TRUNCATES.contains(name)) follow();
            if (TRUNCATES.contains(name)) noteCut();
            if (name.equals("flush")) noteSynced();
        }
    }

    private void follow() {
        startOffset = ServerLog.startOffset(log);
        long end = ServerLog.endOffset(log);
        int deleted = 0;
        while (deleted < batches.size() && batches.get(deleted).lastOffset() < startOffset) deleted++;
        batches.subList(0, deleted).clear();
        forgetFrom(end);
        long next = batches.isEmpty() ? startOffset : batches.get(batches.size() - 1).lastOffset() + 1;
        while (next < end) {
            List<LoggedBatch> more = ServerLog.batchesFrom(log, next);
            if (more.isEmpty()) throw new IllegalStateException("the log has nothing at " + next + ", and ends at " + end);
            batches.addAll(more);
            next = more.get(more.size() - 1).lastOffset() + 1;
        }
    }

    private void forgetFrom(long offset) {
        int kept = batches.size();
        while (kept > 0 && batches.get(kept - 1).lastOffset() >= offset) kept--;
        batches.subList(kept, batches.size()).clear();
    }

    private void noteSynced() {
        synced.clear();
        segmentSizes().forEach(synced::put);
    }

    /** A truncated segment has lost what was synced beyond its end. */
    private void noteCut() {
        Map<Path, Long> sizes = segmentSizes();
        synced.replaceAll((file, bytes) -> Math.min(bytes, sizes.getOrDefault(file, 0L)));
    }

    private Map<Path, Long> segmentSizes() {
        Map<Path, Long> sizes = new HashMap<>();
        try (Stream<Path> files = Files.list(directory)) {
            for (Path file : files.filter(FileDisk::isSegment).toList()) sizes.put(file, Files.size(file));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return sizes;
    }

    // The log's background tasks, as events of the simulation. They end with the process that began them.
    private final class Tasks implements Scheduler {
        @Override public void startup() { }
        @Override public void shutdown() { }
        public void resizeThreadPool(int threads) { }

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            node.runAfter(delayMs, () -> {
                task.run();
                if (periodMs > 0) schedule(name, task, periodMs, periodMs);
            });
            return (ScheduledFuture<?>) Proxy.newProxyInstance(FileDisk.class.getClassLoader(),
                new Class<?>[] {ScheduledFuture.class},
                (self, method, arguments) -> method.getReturnType() == boolean.class ? Boolean.FALSE : null);
        }
    }
}
