// A node: Kafka's unmodified Raft client of a release, on a log and a quorum state in memory or in files, with virtual
// time, and a small state machine in the place of the QuorumController.
//
// The client's poll is called until it waits for time or a message; its timeout becomes an event. The disk (log and
// quorum state) outlives the node's incarnations.
//
// The state machine answers as QuorumController does: a write is appended by the active controller and answered when it
// is committed; other nodes refuse it and name the active one; a controller that loses its leadership fails the writes
// that wait without a name, because they may still be committed. It writes a record without content from time to time
// (NoOpRecord, metadata.max.idle.interval.ms). It makes a snapshot of what it applied after so many bytes of records
// (metadata.log.max.record.bytes.between.snapshots), and the log before the latest one is deleted when it is larger than
// metadata.max.retention.bytes.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.raft.errors.BufferAllocationException;
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.snapshot.SnapshotReader;
import splitbrain.simulation.Invariants;
import splitbrain.simulation.Node;
import splitbrain.simulation.Remains;
import splitbrain.simulation.Reports;
import splitbrain.simulation.Simulation;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

final class SimulatedNode implements Node {
    private static final String CLUSTER_ID = "c3BsaXRicmFpbi1zaW11bA";
    private static final TopicPartition METADATA = new TopicPartition("__cluster_metadata", 0);
    private static final Uuid TOPIC_ID = new Uuid(0, 1);
    // Where the log and the quorum state are: in memory, as in Kafka's tests, or in files, as in a server.
    private static final String LOG = "splitbrain.simulation.log";
    private static final String BOOTSTRAP_NODES = "splitbrain.bootstrap.nodes";
    private static final String IN_MEMORY = "memory";
    private static final int FETCH_WAIT_MS_MAX = 500;
    private static final int SHUTDOWN_TIMEOUT_MS = 5000;
    // So many polls without a wait, while nothing changes, are a loop; time then passes in these steps.
    private static final int SPIN_POLLS = 50;
    private static final int SPIN_STEP_MS = 10;

    // So many callers are named with an exception.
    private static final int FRAMES = 4;

    final int id;
    private final Simulation simulation;
    private final Map<Integer, InetSocketAddress> staticVoters;
    private final Map<String, String> properties;
    private final Object config;
    private final int requestTimeoutMs;
    private final NodeEnvironment environment;
    // The last response, in words, and when it came.
    private String handled;
    private long handledMs;
    private final LogMirror mirror = new LogMirror();

    private Disk disk;
    private Object formattedVoters;
    private int diskGeneration;

    // The running process; client is null while there is none.
    private KafkaRaftClient<Long> client;
    private Metrics metrics;
    private NodeEnvironment.Queue queue;
    private final List<RaftRequest.Outbound> outbox = new ArrayList<>();
    private int incarnation;
    private boolean isPaused;
    private final ArrayDeque<Runnable> waiting = new ArrayDeque<>();
    private long timerNumber;
    private EpochState observedState;
    // The state in which the client polls without a wait, until something changes.
    private EpochState spinning;
    private long highWatermark;
    private int correlation;

    // The state machine.
    private int activeEpoch = -1;
    private int knownLeader = -1;
    private final Map<Long, Long> pendingWrites = new LinkedHashMap<>();
    // What it applied, in order, and where the next snapshot would end.
    private final List<Long> image = new ArrayList<>();
    private final long snapshotBytes;
    private final long retentionBytes;
    private long bytesSinceSnapshot;
    // The size of the log as far as it was applied.
    private long logBytes;
    private Batch<Long> lastApplied;
    private final Set<Long> openCalls = new LinkedHashSet<>();

    // The last VotersRecord that was read, and its voter set.
    private ByteBuffer lastVotersRecord;
    private Object lastVoters;

    private boolean isStatusDue;
    // What Python knows of this node; null after a command that it knows the effect of.
    private Known lastKnown;

    /** remains: of the node whose place it takes; null for one with an empty disk. */
    SimulatedNode(Simulation simulation, int id, Map<String, String> properties, Remains remains) {
        this.simulation = simulation;
        this.id = id;
        environment = new NodeEnvironment(simulation, this, outbox::add);
        this.properties = properties;
        staticVoters = staticVoters(simulation);
        config = Release.config(properties, staticVoters);
        requestTimeoutMs = Release.requestTimeoutMs(config);
        snapshotBytes = ServerLog.number(properties, "metadata.log.max.record.bytes.between.snapshots", 20 << 20);
        retentionBytes = ServerLog.number(properties, ServerLog.RETENTION_BYTES, ServerLog.RETENTION_BYTES_DEFAULT);
        if (remains == null) format();
        else takeOver(remains);
    }

    private static Map<Integer, InetSocketAddress> staticVoters(Simulation simulation) {
        Map<Integer, InetSocketAddress> voters = new TreeMap<>();
        for (int voter = 1; voter <= simulation.voterCount && !simulation.isDynamic; voter++)
            voters.put(voter, Release.address(voter));
        return voters;
    }

    /** Create an empty disk; the first voters of a quorum with dynamic voters have its first snapshot. */
    private void format() {
        if (disk != null) disk.discard();
        disk = isInMemory() ? new MemoryDisk(id, METADATA, TOPIC_ID) : fileDisk(Map.of());
        formattedVoters = firstVoters();
        if (formattedVoters == null) return;
        disk.open();
        VoterSets.SUPPORT.format(disk.log(), environment, NodeEnvironment.SERDE, formattedVoters);
        disk.close(true);
    }

    private boolean isInMemory() {
        return properties.getOrDefault(LOG, IN_MEMORY).equals(IN_MEMORY);
    }

    private Disk fileDisk(Map<Path, Long> synced) {
        Path parent = simulation.directory(id, diskGeneration);
        return new FileDisk(this, environment, properties, parent, METADATA, TOPIC_ID, synced);
    }

    /** The voters that the disk is formatted with; null if it is with none. */
    private Object firstVoters() {
        if (!simulation.isDynamic || id > simulation.voterCount || diskGeneration > 0) return null;
        Map<Integer, Uuid> directories = new TreeMap<>();
        for (int voter = 1; voter <= simulation.voterCount; voter++) directories.put(voter, directory(voter, 0));
        return VoterSets.SUPPORT.of(directories);
    }

    /** Go on with the disk of another node. */
    private void takeOver(Remains remains) {
        incarnation = remains.incarnation();
        diskGeneration = remains.diskGeneration();
        formattedVoters = firstVoters();
        disk = isInMemory() ? (Disk) remains.memory() : fileDisk(remains.synced());
        try {
            if (!isInMemory()) disk.open();  // it reads what the files have
        } catch (RuntimeException unreadable) {
            return;  // the process exits with the same exception when it starts
        }
        disk.close(false);
        mirror.update(id, disk, simulation.invariants);
    }

    @Override
    public Remains remains() {
        return new Remains(incarnation, diskGeneration, disk.synced(), isInMemory() ? disk : null);
    }

    /** The id of a node's disk; nodes.simulation.kafka.cluster has the same rule. */
    private static Uuid directory(int node, int generation) {
        return new Uuid((1L << 40) + node, (1L << 40) + generation);
    }

    @Override
    public int id() {
        return id;
    }

    @Override
    public int requestTimeoutMs() {
        return requestTimeoutMs;
    }

    @Override
    public short latestVersion(short apiKey) {
        return Wire.latestVersion(apiKey);
    }

    @Override
    public long endOffset() {
        return mirror.endOffset();
    }

    @Override
    public int incarnation() {
        return incarnation;
    }

    @Override
    public boolean isUp() {
        return client != null;
    }

    @Override
    public boolean isExecuting() {
        return isUp() && !isPaused;
    }

    @Override
    public int ledEpoch() {
        EpochState state = isExecuting() ? Release.state(client.quorum()) : null;
        return state instanceof LeaderState<?> ? state.epoch() : -1;
    }

    @Override
    public boolean hasCommittedAsLeader() {
        return isExecuting() && Release.state(client.quorum()) instanceof LeaderState<?> leader
            && client.highWatermark().orElse(-1) > leader.epochStartOffset();
    }

    // ---------------------------------------------------------------- processes and disks

    @Override
    public void start() {
        incarnation++;
        isPaused = false;
        isStatusDue = true;
        observedState = null;
        spinning = null;
        highWatermark = -1;
        activeEpoch = -1;
        knownLeader = -1;
        handled = null;
        image.clear();
        bytesSinceSnapshot = 0;
        logBytes = 0;
        simulation.invariants.starts(id);
        queue = new NodeEnvironment.Queue();
        metrics = new Metrics(environment);
        CapturedLog lines = new CapturedLog(id, text -> simulation.reports.log(simulation.nowMs(), id, text));
        Random random = new Random(simulation.seed * 1_000_003L + id * 1_009L + incarnation);
        try {
            disk.open();
            client = Release.client(Release.id(id), directory(id, diskGeneration), NodeEnvironment.SERDE,
                environment.channel(), queue, disk.log(), NodeEnvironment.POOL, environment, environment.expirations(),
                FETCH_WAIT_MS_MAX, true, CLUSTER_ID, bootstrapServers(), Release.endpoints(id),
                Release.supportedKRaftVersions(), lines, random, config, disk.store(), metrics);
            Release.initialize(client, staticVoters, disk.store(), metrics, Release.noMetrics());
            client.register(environment.listener());
        } catch (RuntimeException error) {
            exit(error);
            return;
        }
        drain();
    }

    /** All nodes, unless a property names some; none in a static quorum. */
    private List<InetSocketAddress> bootstrapServers() {
        if (!simulation.isDynamic) return List.of();
        String named = properties.get(BOOTSTRAP_NODES);
        IntStream nodes = named == null
            ? IntStream.rangeClosed(1, simulation.nodeCount)
            : Arrays.stream(named.split(",")).map(String::strip).mapToInt(Integer::parseInt);
        return nodes.mapToObj(Release::address).toList();
    }

    @Override
    public ArrayNode logContents() {
        return LogMirror.contents(disk);
    }

    @Override
    public void kill() {
        if (isUp()) end();
        lastKnown = null;
    }

    @Override
    public void stop() {
        run(() -> client.shutdown(SHUTDOWN_TIMEOUT_MS));
    }

    @Override
    public void pause() {
        isPaused = isUp();
        lastKnown = null;
    }

    @Override
    public void resume() {
        if (!isPaused) return;
        isPaused = false;
        isStatusDue = true;
        List<Runnable> actions = new ArrayList<>(waiting);
        waiting.clear();
        actions.forEach(Runnable::run);
        drain();
    }

    @Override
    public void loseUnsynced() {
        try {
            disk.loseUnsynced();
        } catch (RuntimeException unreadable) {
            return;  // the process exits with the same exception when it starts
        }
        mirror.update(id, disk, simulation.invariants);
    }

    @Override
    public void loseDisk() {
        diskGeneration++;
        format();
        mirror.update(id, disk, simulation.invariants);
        simulation.invariants.losesDisk(id);
    }

    @Override
    public void loseQuorumState() {
        disk.loseQuorumState();
        simulation.invariants.losesDisk(id);
    }

    /** The node is about to handle a response, in its next polls at the same time. */
    void handles(String response) {
        handled = response;
        handledMs = simulation.nowMs();
    }

    /** The process ends with an exception. */
    void exit(Throwable error) {
        String detail = simulation.withoutDirectory(error.toString()) + " in " + Arrays.stream(error.getStackTrace()).limit(FRAMES)
            .map(frame -> frame.getFileName() + ":" + frame.getLineNumber()).collect(Collectors.joining(" < "));
        if (handled != null && handledMs == simulation.nowMs()) detail += ", after a " + handled;
        end();
        simulation.reports.exited(simulation.nowMs(), id, detail);
        simulation.invariants.throwsException(id, detail);
    }

    /** The process is gone; its connections break. */
    private void end() {
        disk.close(false);
        client = null;
        incarnation++;
        isPaused = false;
        isStatusDue = true;
        waiting.clear();
        outbox.clear();
        pendingWrites.clear();
        simulation.network.ended(id);
        for (long call : List.copyOf(openCalls)) answer(call, "none", null);
        if (metrics != null) metrics.close();
        metrics = null;
    }

    @Override
    public void close() {
        if (metrics != null) metrics.close();
        client = null;
        disk.discard();
    }

    // ---------------------------------------------------------------- execution

    @Override
    public void run(Runnable action) {
        if (!isUp()) return;
        if (isPaused) {
            waiting.add(action);
            return;
        }
        action.run();
        drain();
    }

    void runAfter(long delayMs, Runnable action) {
        runAt(simulation.nowMs() + delayMs, action);
    }

    /** As run, at a time, unless the process has ended by then. */
    void runAt(long timeMs, Runnable action) {
        int expected = incarnation;
        simulation.at(timeMs, () -> {
            if (incarnation == expected) run(action);
        });
    }

    @Override
    public void receive(short apiKey, short version, ByteBuffer bytes, Consumer<ByteBuffer> respond) {
        if (apiKey == ApiKeys.API_VERSIONS.id) respond.accept(Wire.encoded(Wire.apiVersions(), version));
        else handle(apiKey, version, bytes, response -> respond.accept(Wire.encoded(Wire.sendable(response), version)));
    }

    private void handle(short apiKey, short version, ByteBuffer bytes, Consumer<ApiMessage> respond) {
        ApiMessage data = Wire.decoded(apiKey, bytes, true, version);
        var request = Release.inboundRequest(++correlation, version, data, environment.milliseconds());
        request.completion.whenComplete((response, error) -> {
            if (response != null) simulation.callBack(() -> respond.accept(response.data()));
        });
        client.handle(request);
    }

    private void drain() {
        int polls = 0;
        while (isUp()) {
            try {
                client.poll();
            } catch (RuntimeException error) {
                exit(error);
                return;
            }
            if (bytesSinceSnapshot >= snapshotBytes) {
                observe();  // a single voter may have appended and committed in this poll what the snapshot covers
                makeSnapshot();
            }
            boolean hasProgressed = !outbox.isEmpty() || queue.hasProgressed();
            sendAll();
            observe();
            if (!client.isRunning()) {
                client.close();
                disk.close(true);
                end();
                simulation.reports.stopped(simulation.nowMs(), id);
                return;
            }
            if (queue.isIdle() && queue.timeoutMs() > 0) break;
            if (hasProgressed || observedState != spinning) spinning = null;
            polls = hasProgressed ? 0 : polls + 1;
            if (polls < SPIN_POLLS && spinning == null) continue;
            spinning = observedState;
            boolean votes = !client.quorum().isObserver();
            simulation.invariants.spins(id, observedState.name() + (votes ? "" : " that does not vote"));
            wakeAfter(SPIN_STEP_MS);
            return;
        }
        if (isUp()) wakeAfter(queue.timeoutMs());
    }

    private void wakeAfter(long delayMs) {
        if (delayMs > Integer.MAX_VALUE) return;
        long number = ++timerNumber;
        runAtTimer(simulation.nowMs() + delayMs, number);
    }

    private void runAtTimer(long timeMs, long number) {
        int expected = incarnation;
        simulation.at(timeMs, () -> {
            if (incarnation == expected && timerNumber == number) run(() -> { });
        });
    }

    private void sendAll() {
        if (outbox.isEmpty()) return;
        List<RaftRequest.Outbound> requests = List.copyOf(outbox);
        outbox.clear();
        for (RaftRequest.Outbound request : requests)
            simulation.network.send(this, Release.destination(request), new SentRequest(this, request));
    }

    // ---------------------------------------------------------------- the state machine

    void commit(long offset, long value) {
        simulation.invariants.applied(id, offset, value);
        if (value < 0) return;
        image.add(value);
        simulation.reports.commit(id, value);
        Long call = pendingWrites.remove(value);
        if (call != null) answer(call, "ok", null);
    }

    void committed(Batch<Long> batch) {
        lastApplied = batch;
        bytesSinceSnapshot += batch.sizeInBytes();
        logBytes += batch.sizeInBytes();
    }

    /** Begin with a snapshot; the one that a quorum is formatted with has nothing but voters. */
    void load(SnapshotReader<Long> reader) {
        try (reader) {
            image.clear();
            while (reader.hasNext()) image.addAll(reader.next().records());
            bytesSinceSnapshot = 0;
            simulation.invariants.loaded(id, reader.lastContainedLogOffset() + 1, image);
            simulation.reports.load(id, image);
        }
    }

    private void makeSnapshot() {
        bytesSinceSnapshot = 0;
        long end = lastApplied.lastOffset() + 1;
        Release.snapshot(client, end, lastApplied.epoch(), lastApplied.appendTimestamp()).ifPresent(writer -> {
            try (writer) {
                writer.append(List.copyOf(image));
                writer.freeze();
            }
            if (logBytes <= retentionBytes) return;
            Release.deleteBefore(disk.log(), end, lastApplied.epoch());
            logBytes = 0;
        });
    }

    void leaderChanged(int leader, int epoch) {
        knownLeader = leader;
        if (leader == id) claim(epoch);
        else renounce();
    }

    private void claim(int epoch) {
        activeEpoch = epoch;
        if (simulation.idleMs > 0) runAt(simulation.nowMs() + simulation.idleMs, () -> writeNoOp(epoch));
    }

    private void writeNoOp(int epoch) {
        if (activeEpoch != epoch) return;
        append(simulation.noOp());
        runAt(simulation.nowMs() + simulation.idleMs, () -> writeNoOp(epoch));
    }

    private void renounce() {
        activeEpoch = -1;
        List<Long> calls = List.copyOf(pendingWrites.values());
        pendingWrites.clear();
        for (long call : calls) answer(call, "not-controller", null);
    }

    @Override
    public void serve(long call, Runnable action) {
        openCalls.add(call);
        run(action);
    }

    @Override
    public void write(long call, long value) {
        if (activeEpoch < 0) {
            answer(call, "not-controller", knownLeader < 0 || knownLeader == id ? null : String.valueOf(knownLeader));
            return;
        }
        pendingWrites.put(value, call);
        append(value);
    }

    private void append(long value) {
        try {
            Release.append(client, activeEpoch, value);
        } catch (NotLeaderException | BufferAllocationException refused) {
            renounce();
        }
    }

    @Override
    public void read(long call) {
        simulation.reports.arrive(call);
        answer(call, "read", null);
    }

    @Override
    public void request(long call, short apiKey, short version, ByteBuffer bytes) {
        handle(apiKey, version, bytes,
            response -> answer(call, "response", Reports.text(Wire.encoded(response, version))));
    }

    private void answer(long call, String result, String value) {
        if (openCalls.remove(call)) simulation.answer(call, id, result, value);
    }

    // ---------------------------------------------------------------- what is seen from outside

    private void observe() {
        isStatusDue = true;
        Invariants invariants = simulation.invariants;
        boolean isChanged = mirror.update(id, disk, invariants);
        QuorumState quorum = client.quorum();
        EpochState state = Release.state(quorum);
        if (state != observedState) observeState(state);
        long offset = client.highWatermark().orElse(-1);
        if (offset != highWatermark) {
            if (offset >= 0) {
                invariants.highWatermark(id, offset);
                mirror.commit(id, state.epoch(), Math.max(highWatermark, 0), offset, invariants);
                // Voters that were appended in this step were not those that the high watermark was computed with.
                if (state instanceof LeaderState<?> && !(isChanged && simulation.isDynamic)) observeMajority(offset);
            }
            highWatermark = offset < 0 ? highWatermark : offset;
        }
        if (isChanged && simulation.isDynamic) observeVoters();
    }

    private void observeMajority(long offset) {
        int reached = 0;
        int voters = 0;
        for (int voter : voterIds()) {
            voters++;
            if (simulation.node(voter).endOffset() >= offset) reached++;
        }
        simulation.invariants.reached(id, offset, reached, voters);
    }

    private void observeState(EpochState state) {
        observedState = state;
        Invariants invariants = simulation.invariants;
        invariants.epoch(id, state.epoch());
        invariants.vote(id, state.epoch(), Release.voted(state));
        if (state instanceof LeaderState<?>) {
            invariants.leads(id, state.epoch());
            invariants.hasCommitted(id, state.epoch(), mirror.startOffset(), mirror::hashAt);
        }
    }

    private void observeVoters() {
        Object read = readVoters();
        Object held = VoterSets.SUPPORT.held(client);
        if (read == null || held.equals(read)) return;
        String heldIds = VoterSets.SUPPORT.ids(held).toString();
        String readIds = VoterSets.SUPPORT.ids(read).toString();
        boolean isSame = heldIds.equals(readIds);
        simulation.invariants.voters(id, isSame ? held.toString() : heldIds, isSame ? read.toString() : readIds);
    }

    /** The voters that the log names, or those of the snapshot that the disk was formatted with. */
    private Object readVoters() {
        ByteBuffer record = mirror.voters();
        if (record == null) return formattedVoters;
        if (record != lastVotersRecord) lastVoters = VoterSets.SUPPORT.read(record);
        lastVotersRecord = record;
        return lastVoters;
    }

    // What status shows, without the end offsets of others.
    private record Known(EpochState state, int leader, long highWatermark, long endOffset, int lastEpoch, Object voters) { }

    @Override
    public void putChangedStatus(ObjectNode statuses) {
        if (!isStatusDue) return;
        isStatusDue = false;
        Known known = isExecuting() ? known() : null;
        if (Objects.equals(known, lastKnown)) return;
        lastKnown = known;
        statuses.set(String.valueOf(id), known == null ? null : status(known));
    }

    private Known known() {
        EpochState state = Release.state(client.quorum());
        Object voters = state instanceof LeaderState<?> leader ? Release.endOffsets(leader)
            : simulation.isDynamic ? VoterSets.SUPPORT.held(client) : null;
        int leader = client.quorum().leaderId().orElse(-1);
        long offset = client.highWatermark().orElse(-1);
        return new Known(state, leader, offset, client.logEndOffset(), Release.lastEpoch(disk.log()), voters);
    }

    private ArrayNode status(Known known) {
        EpochState state = known.state;
        long offset = known.highWatermark;
        ArrayNode row = Reports.JSON.createArrayNode();
        row.add(state.name()).add(state.epoch()).add(known.leader).add(Release.voted(state)).add(offset).add(known.endOffset);
        LeaderState<?> leader = state instanceof LeaderState<?> leading ? leading : null;
        row.add(leader != null && offset > leader.epochStartOffset());
        row.add(known.lastEpoch).add(client.quorum().isVoter());
        ObjectNode voters = row.addObject();
        if (leader != null) ((Map<?, ?>) known.voters).forEach((voter, end) -> voters.put(voter.toString(), (Long) end));
        else for (int voter : voterIds()) voters.put(String.valueOf(voter), voter == id ? known.endOffset : -1);
        return row;
    }

    private Iterable<Integer> voterIds() {
        return simulation.isDynamic ? VoterSets.SUPPORT.ids(VoterSets.SUPPORT.held(client)) : staticVoters.keySet();
    }
}
