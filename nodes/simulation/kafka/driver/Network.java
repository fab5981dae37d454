// The network between the nodes, in the place of Kafka's KafkaNetworkChannel and SocketServer.
//
// A message takes a random time within the bounds, and is carried as bytes of the newest stable version that both nodes'
// releases have. A request that this version cannot carry fails with UNSUPPORTED_VERSION, as in NetworkClient. A node that does
// not run refuses connections at once; when a node ends, its connections break. A request without a response fails after
// controller.quorum.request.timeout.ms, and with it the connection, as in Kafka's NetworkClient. The client learns of all
// these as BROKER_NOT_AVAILABLE, as from KafkaNetworkChannel.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.zip.CRC32;

public final class Network {
    static final int CLIENTS = 0;
    // Of Kafka's Errors.
    private static final short BROKER_NOT_AVAILABLE = 8;
    private static final short UNSUPPORTED_VERSION = 35;

    private final Simulation simulation;
    private final SplittableRandom random;
    private final int delayMsMin;
    private final int delayMsMax;
    private final boolean[][] isCut;
    private final Rules rules;
    private final Connection[][] open;
    // Connections whose client's end is closed and on which requests are still under way are in this list, too.
    private final List<Connection> connections = new ArrayList<>();
    private final CRC32 checksum = new CRC32();

    Network(Simulation simulation, long seed, int nodes, int delayMsMin, int delayMsMax) {
        this.simulation = simulation;
        random = new SplittableRandom(seed);
        this.delayMsMin = delayMsMin;
        this.delayMsMax = delayMsMax;
        isCut = new boolean[nodes + 1][nodes + 1];
        open = new Connection[nodes + 1][nodes + 1];
        rules = new Rules(seed);
    }

    // ---------------------------------------------------------------- faults

    void setCut(int source, int target, boolean cut) {
        isCut[source][target] = cut;
    }

    void restoreAll() {
        for (boolean[] row : isCut) java.util.Arrays.fill(row, false);
    }

    boolean isCut(int source, int target) {
        return isCut[source][target];
    }

    long delayMs() {
        return delayMsMin + random.nextInt(delayMsMax - delayMsMin + 1);
    }

    ObjectNode intercept(JsonNode replacement) {
        ObjectNode before = rules.counts();
        for (Rules.Rule ended : rules.replace(replacement)) {
            for (Connection each : List.copyOf(connections)) {
                boolean isBroken = each.requests.release(ended) | each.responses.release(ended);
                if (isBroken) fail(each);
            }
        }
        return before;
    }

    ObjectNode ruleCounts() {
        return rules.counts();
    }

    // ---------------------------------------------------------------- connections

    /** Send a node's request to another node. */
    public void send(Node client, int destination, Request request) {
        Node server = simulation.node(destination);
        if (server == null) {
            simulation.at(simulation.nowMs() + delayMs(), () -> request.failed(BROKER_NOT_AVAILABLE, true));
            return;
        }
        short api = request.apiKey();
        short version = (short) Math.min(client.latestVersion(api), server.latestVersion(api));
        ByteBuffer bytes = version < 0 ? null : request.bytes(version);
        Connection connection = connection(client.id(), destination);
        var pending = new Connection.Pending(request, version, simulation.nowMs());
        connection.pending.put(request.correlation(), pending);
        arm(connection, client);
        if (bytes == null) refuse(connection, server, pending);
        else carry(connection, connection.requests, pending, false, bytes,
            () -> arrive(connection, server, pending, bytes.duplicate()));
    }

    private Connection connection(int client, int server) {
        Connection current = open[client][server];
        if (current == null) {
            current = new Connection(simulation, client, server);
            open[client][server] = current;
            connections.add(current);
        }
        return current;
    }

    /** Fail the connection when its oldest request has waited for the request timeout. */
    private void arm(Connection connection, Node client) {
        if (connection.hasTimer) return;
        connection.hasTimer = true;
        long dueMs = connection.pending.values().iterator().next().sentMs() + client.requestTimeoutMs();
        simulation.at(dueMs, () -> client.run(() -> expire(connection, client)));
    }

    private void expire(Connection connection, Node client) {
        connection.hasTimer = false;
        if (connection.isClosed || connection.pending.isEmpty()) return;
        long oldestMs = connection.pending.values().iterator().next().sentMs();
        if (oldestMs + client.requestTimeoutMs() <= simulation.nowMs()) fail(connection);
        else arm(connection, client);
    }

    /** The client notices that the connection is broken, or that it cannot be made. */
    private void fail(Connection connection) {
        boolean isSent = connection.accepted != 0;
        for (Connection.Pending pending : close(connection)) pending.request().failed(BROKER_NOT_AVAILABLE, isSent);
    }

    private List<Connection.Pending> close(Connection connection) {
        if (open[connection.client][connection.server] == connection) open[connection.client][connection.server] = null;
        connections.removeIf(each -> each.isClosed);
        return connection.close();
    }

    /** A node has ended: its own requests are forgotten, and its peers learn that their connections are broken. */
    public void ended(int node) {
        for (int peer = 1; peer < open.length; peer++) {
            if (open[node][peer] != null) close(open[node][peer]);
            Connection incoming = open[peer][node];
            if (incoming != null && incoming.accepted != 0) reset(incoming);
        }
    }

    /** Tell the client that the server does not have this connection, unless the link is cut. */
    private void reset(Connection connection) {
        if (isCut[connection.server][connection.client]) return;
        connection.responses.put(() -> client(connection, () -> fail(connection)), delayMs(), null);
    }

    private void client(Connection connection, Runnable action) {
        simulation.node(connection.client).run(action);
    }

    // ---------------------------------------------------------------- messages

    private void carry(Connection connection, Connection.Direction direction, Connection.Pending pending,
            boolean isResponse, ByteBuffer bytes, Runnable deliver) {
        int source = isResponse ? connection.server : connection.client;
        int target = isResponse ? connection.client : connection.server;
        Rules.Rule rule = rules.decide(pending.apiKey(), isResponse, source, target, pending.request().isPreVote());
        boolean isLost = isCut[source][target];
        digest(source, target, pending.apiKey(), isResponse, bytes, isLost, rule);
        if (isLost) return;
        if (rule == null) direction.put(deliver, delayMs(), null);
        else act(rule, connection, direction, pending, deliver);
    }

    /** Fail a request that the server's version cannot carry: at once, or when the new connection has told its versions. */
    private void refuse(Connection connection, Node server, Connection.Pending pending) {
        Runnable fail = () -> client(connection, () -> {
            if (isAwaited(connection, pending)) pending.request().failed(UNSUPPORTED_VERSION, true);
        });
        if (connection.accepted != 0) simulation.at(simulation.nowMs(), fail);
        else if (!isCut[connection.client][connection.server]) connection.requests.put(() -> {
            if (isAccepted(connection, server) && !isCut[connection.server][connection.client])
                connection.responses.put(fail, delayMs(), null);
        }, delayMs(), null);
    }

    private void act(Rules.Rule rule, Connection connection, Connection.Direction direction,
            Connection.Pending pending, Runnable deliver) {
        switch (rule.action) {
            case "drop" -> direction.lose();
            case "hold" -> direction.put(deliver, delayMs(), rule);
            case "delay" -> direction.put(deliver, rule.delayMs, null);
            case "duplicate" -> {
                direction.put(deliver, delayMs(), null);
                direction.put(deliver, delayMs(), null);
            }
            case "close" -> {
                direction.lose();
                simulation.at(simulation.nowMs() + delayMs(), () -> client(connection, () -> fail(connection)));
            }
            case "answer" -> connection.responses.put(
                () -> client(connection, () -> {
                    if (isAwaited(connection, pending)) pending.request().failed(rule.errorCode, true);
                }), delayMs(), null);
            default -> throw new IllegalArgumentException("unknown action " + rule.action);
        }
    }

    private void arrive(Connection connection, Node server, Connection.Pending pending, ByteBuffer bytes) {
        if (isAccepted(connection, server)) server.run(() -> receive(connection, server, pending, bytes));
    }

    /** Whether the server has the connection, which it accepts when something arrives on it first. */
    private boolean isAccepted(Connection connection, Node server) {
        if (!server.isUp() || (connection.accepted != 0 && connection.accepted != server.incarnation())) {
            if (!connection.isClosed) reset(connection);
            return false;
        }
        connection.accepted = server.incarnation();
        return true;
    }

    private void receive(Connection connection, Node server, Connection.Pending pending, ByteBuffer bytes) {
        int incarnation = server.incarnation();
        Consumer<ByteBuffer> respond = response -> {
            if (server.incarnation() == incarnation && !connection.isClosed) respond(connection, pending, response);
        };
        server.receive(pending.apiKey(), pending.version(), bytes, respond);
    }

    private void respond(Connection connection, Connection.Pending pending, ByteBuffer bytes) {
        carry(connection, connection.responses, pending, true, bytes, () -> client(connection, () -> {
            if (isAwaited(connection, pending)) pending.request().answered(bytes.duplicate(), pending.version());
        }));
    }

    /** Whether a request still waits for its response, which it has now. */
    private static boolean isAwaited(Connection connection, Connection.Pending pending) {
        return connection.pending.remove(pending.request().correlation()) != null;
    }

    private void digest(int source, int target, short apiKey, boolean isResponse, ByteBuffer bytes, boolean isLost,
            Rules.Rule rule) {
        checksum.reset();
        checksum.update(bytes.array(), 0, bytes.limit());
        Reports reports = simulation.reports;
        reports.digest(simulation.nowMs());
        reports.digest(((source * 64L + target) * 1024 + apiKey) * 4 + (isResponse ? 2 : 0) + (isLost ? 1 : 0));
        reports.digest(checksum.getValue());
        if (rule != null) reports.digest(rule.name);
    }
}
