// A node: Kafka's unmodified Raft client of a release, on a log and a quorum state in memory or in files, with virtual
// time. Its state machine is a Controller, and a NodeObserver sees it from outside.
//
// The client's poll is called until it waits for time or a message; its timeout becomes an event. The disk (log and
// quorum state) outlives the node's incarnations.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
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
import java.util.List;
import java.util.Map;
import java.util.Random;
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
    private final NodeObserver observer;
    private final Controller controller;

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
    // The state in which the client polls without a wait, until something changes.
    private EpochState spinning;
    private int correlation;

    /** remains: of the node whose place it takes; null for one with an empty disk. */
    SimulatedNode(Simulation simulation, int id, Map<String, String> properties, Remains remains) {
        this.simulation = simulation;
        this.id = id;
        environment = new NodeEnvironment(simulation, this, outbox::add);
        this.properties = properties;
        staticVoters = staticVoters(simulation);
        config = Release.config(properties, staticVoters);
        requestTimeoutMs = Release.requestTimeoutMs(config);
        observer = new NodeObserver(simulation, this, mirror);
        controller = new Controller(simulation, this, properties);
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
        spinning = null;
        handled = null;
        observer.started();
        controller.started();
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
            client.register(controller);
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
        observer.isKnown();
    }

    @Override
    public void stop() {
        run(() -> client.shutdown(SHUTDOWN_TIMEOUT_MS));
    }

    @Override
    public void pause() {
        isPaused = isUp();
        observer.isKnown();
    }

    @Override
    public void resume() {
        if (!isPaused) return;
        isPaused = false;
        observer.statusIsDue();
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
        observer.statusIsDue();
        waiting.clear();
        outbox.clear();
        simulation.network.ended(id);
        controller.ended();
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
            if (controller.isSnapshotDue()) {
                observer.observe();  // a single voter may have appended and committed in this poll what it covers
                controller.makeSnapshot();
            }
            boolean hasProgressed = !outbox.isEmpty() || queue.hasProgressed();
            sendAll();
            observer.observe();
            if (!client.isRunning()) {
                client.close();
                disk.close(true);
                end();
                simulation.reports.stopped(simulation.nowMs(), id);
                return;
            }
            if (queue.isIdle() && queue.timeoutMs() > 0) break;
            if (hasProgressed || observer.state() != spinning) spinning = null;
            polls = hasProgressed ? 0 : polls + 1;
            if (polls < SPIN_POLLS && spinning == null) continue;
            spinning = observer.state();
            boolean votes = !client.quorum().isObserver();
            simulation.invariants.spins(id, spinning.name() + (votes ? "" : " that does not vote"));
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

    // ---------------------------------------------------------------- clients

    @Override
    public void serve(long call, Runnable action) {
        controller.opened(call);
        run(action);
    }

    @Override
    public void write(long call, long value) {
        controller.write(call, value);
    }

    @Override
    public void read(long call) {
        controller.read(call);
    }

    @Override
    public void request(long call, short apiKey, short version, ByteBuffer bytes) {
        handle(apiKey, version, bytes,
            response -> controller.answer(call, "response", Reports.text(Wire.encoded(response, version))));
    }

    // ---------------------------------------------------------------- what is seen from outside

    @Override
    public void putChangedStatus(ObjectNode statuses) {
        observer.putChangedStatus(statuses);
    }

    /** The running client; null while there is none. */
    KafkaRaftClient<Long> client() {
        return client;
    }

    Disk disk() {
        return disk;
    }

    /** The voters that the disk was formatted with; null if it was with none. */
    Object formattedVoters() {
        return formattedVoters;
    }

    /** Who votes, as far as the running client knows. */
    Iterable<Integer> voterIds() {
        return simulation.isDynamic ? VoterSets.SUPPORT.ids(VoterSets.SUPPORT.held(client)) : staticVoters.keySet();
    }
}
