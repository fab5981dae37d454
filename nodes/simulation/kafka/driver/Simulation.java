// One simulated run: virtual time, its events, the nodes and the network between them, in one thread.
//
// Events happen in the order of their times, and of their creation at the same time. Time passes in advance only.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.function.Consumer;

public final class Simulation {
    private record Event(long atMs, long number, Runnable action) implements Comparable<Event> {
        @Override
        public int compareTo(Event other) {
            return atMs != other.atMs ? Long.compare(atMs, other.atMs) : Long.compare(number, other.number);
        }
    }

    public final Reports reports = new Reports();
    public final Invariants invariants = new Invariants((node, invariant, message) ->
        this.reports.violation(this.nowMs, node, invariant, message));
    public final Network network;
    public final long seed;
    public final long originMs;
    public final int nodeCount;
    // The first voters are 1 to voterCount; all nodes, if voters are static.
    public final int voterCount;
    public final boolean isDynamic;
    // How often an active controller writes a record of its own; 0 for never.
    public final long idleMs;
    // Where nodes may have their logs in files; null if they may not.
    private final Path directory;
    private final List<KafkaRelease> releases;
    private final Node[] nodes;
    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private long nowMs;
    private long eventCount;
    private long noOpCount;
    private RuntimeException failure;

    /** releases are those that nodes may run; spec maps a node that does not run the first one to its place. */
    Simulation(JsonNode spec, List<KafkaRelease> releases) {
        releases.forEach(KafkaRelease::begin);
        this.releases = releases;
        seed = spec.get("seed").asLong();
        originMs = spec.get("origin").asLong();
        idleMs = spec.path("idle").asLong();
        directory = spec.hasNonNull("directory") ? Path.of(spec.get("directory").asText()) : null;
        nodeCount = spec.get("nodes").asInt();
        isDynamic = spec.hasNonNull("voters");
        voterCount = isDynamic ? spec.get("voters").asInt() : nodeCount;
        JsonNode delay = spec.get("delay");
        network = new Network(this, seed, nodeCount, delay.get(0).asInt(), delay.get(1).asInt());
        nodes = new Node[nodeCount + 1];
        for (int id = 1; id <= nodeCount; id++) {
            KafkaRelease release = releases.get(spec.path("releases").path(String.valueOf(id)).asInt());
            nodes[id] = release.node(this, id, properties(spec.path("settings").path(String.valueOf(id))), null);
        }
    }

    private static Map<String, String> properties(JsonNode settings) {
        Map<String, String> properties = new HashMap<>();
        settings.fields().forEachRemaining(each -> properties.put(each.getKey(), each.getValue().asText()));
        return properties;
    }

    /** From its next start on, a node that does not run has this release and these properties. */
    void change(int id, int release, JsonNode settings) {
        if (nodes[id].isUp()) throw new IllegalStateException("node " + id + " runs");
        nodes[id] = releases.get(release).node(this, id, properties(settings), nodes[id].remains());
    }

    public long nowMs() {
        return nowMs;
    }

    /** The node with this id; null if there is none. */
    public Node node(int id) {
        return id >= 1 && id < nodes.length ? nodes[id] : null;
    }

    /** The directory of a node's disk; generation is how many it has had before. */
    public Path directory(int node, int generation) {
        return directory.resolve(node + "-" + generation);
    }

    /** A text in which the nodes' directories do not differ between equal runs. */
    public String withoutDirectory(String text) {
        return directory == null ? text : text.replace(directory + "/", "");
    }

    /** The value of a record without content: negative, and a different one for each record. */
    public long noOp() {
        return -++noOpCount;
    }

    public void at(long timeMs, Runnable action) {
        events.add(new Event(timeMs, eventCount++, action));
    }

    /** Let time pass until then, or until the end of a millisecond in which something was reported that the caller
     * waits for. */
    void advance(long untilMs) {
        for (Event next = events.peek(); next != null && next.atMs <= untilMs; next = events.peek()) {
            if (reports.wakes && next.atMs > nowMs) return;
            events.poll();
            nowMs = next.atMs;
            next.action.run();
            if (failure != null) throw failure;
        }
        if (!reports.wakes) nowMs = Math.max(nowMs, untilMs);
    }

    /** Execute a part of the driver that Kafka calls back, where the exception would be caught: it ends the simulation. */
    public void callBack(Runnable action) {
        try {
            action.run();
        } catch (RuntimeException error) {
            failure = error;
        }
    }

    // ---------------------------------------------------------------- clients

    /** A client's call: a request and, later, an answer, each with a delay of its own. */
    void call(long call, int node, Consumer<Node> serve) {
        reports.digest(call * 64 + node);
        if (network.isCut(Network.CLIENTS, node)) return;
        at(nowMs + network.delayMs(), () -> {
            Node server = nodes[node];
            if (server.isUp()) server.serve(call, () -> serve.accept(server));
            else reports.answer(call, "none");
        });
    }

    /** Send the answer of a call; result and value as in Reports. */
    public void answer(long call, int node, String result, String value) {
        if (network.isCut(node, Network.CLIENTS)) return;
        at(nowMs + network.delayMs(), () -> {
            var row = reports.answer(call, result);
            if (value != null) {
                row.add(value);
                reports.digest(value);
            }
        });
    }

    // ---------------------------------------------------------------- replies

    /** What Python is told after each line of commands. */
    ObjectNode reply() {
        ObjectNode reply = Reports.JSON.createObjectNode();
        reply.put("now", nowMs);
        ObjectNode statuses = changedStatuses();
        if (!statuses.isEmpty()) reply.set("status", statuses);
        if (!events.isEmpty()) reply.put("next", events.peek().atMs);
        reply.set("reports", reports.take());
        return reply;
    }

    /** The status of each node where it has changed since the last call. */
    ObjectNode changedStatuses() {
        ObjectNode statuses = Reports.JSON.createObjectNode();
        for (int id = 1; id <= nodeCount; id++) nodes[id].putChangedStatus(statuses);
        return statuses;
    }

    void close() {
        for (int id = 1; id <= nodeCount; id++) nodes[id].close();
        events.clear();
    }
}
