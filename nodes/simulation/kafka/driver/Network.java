// The network between the nodes, in the place of Kafka's KafkaNetworkChannel and SocketServer.
//
// A message takes a random time within the bounds, and is carried as bytes of the release's newest stable version. A
// node that does not run refuses connections at once; when a node ends, its connections break. A request without a
// response fails after controller.quorum.request.timeout.ms, and with it the connection, as in Kafka's NetworkClient.
// The client learns of all these as BROKER_NOT_AVAILABLE, as from KafkaNetworkChannel. ApiVersions, which a process's
// socket server answers and not the Raft client, is answered here.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Writable;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.zip.CRC32;

final class Network {
    static final int CLIENTS = 0;
    private static final java.lang.reflect.Method PRE_VOTE = preVoteAccessor();

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

    /** Send a node's request; complete gets the response, or an error response when the connection breaks. */
    void send(SimulatedNode client, int destination, int correlation, ApiMessage data, Consumer<ApiMessage> complete) {
        ApiKeys api = ApiKeys.forId(data.apiKey());
        SimulatedNode server = simulation.node(destination);
        if (server == null) {
            simulation.at(simulation.nowMs() + delayMs(), () -> complete.accept(unavailable(data.apiKey())));
            return;
        }
        Connection connection = connection(client.id, destination);
        Boolean isPreVote = isPreVote(data);
        var request = new Connection.Pending(correlation, simulation.nowMs(), api.id, isPreVote, complete);
        connection.pending.put(correlation, request);
        arm(connection, client);
        ByteBuffer bytes = encoded(data);
        carry(connection, connection.requests, request, false, bytes,
            () -> arrive(connection, server, request, bytes.duplicate()));
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
    private void arm(Connection connection, SimulatedNode client) {
        if (connection.hasTimer) return;
        connection.hasTimer = true;
        long dueMs = connection.pending.values().iterator().next().sentMs() + client.requestTimeoutMs();
        simulation.at(dueMs, () -> client.run(() -> expire(connection, client)));
    }

    private void expire(Connection connection, SimulatedNode client) {
        connection.hasTimer = false;
        if (connection.isClosed || connection.pending.isEmpty()) return;
        long oldestMs = connection.pending.values().iterator().next().sentMs();
        if (oldestMs + client.requestTimeoutMs() <= simulation.nowMs()) fail(connection);
        else arm(connection, client);
    }

    /** The client notices that the connection is broken, or that it cannot be made.
     *
     * 3.7 has no error response for FetchSnapshot. The exception ends the process when the request was not yet sent
     * (InterBrokerSendThread); of one that was sent it is logged, and the request stays without a response (NetworkClient).
     */
    private void fail(Connection connection) {
        boolean isSent = connection.accepted != 0;
        for (Connection.Pending request : close(connection)) {
            ApiMessage response;
            try {
                response = unavailable(request.apiKey());
            } catch (IllegalArgumentException missing) {
                if (!isSent) simulation.node(connection.client).exit(missing);
                continue;
            }
            request.complete().accept(response);
        }
    }

    private List<Connection.Pending> close(Connection connection) {
        if (open[connection.client][connection.server] == connection) open[connection.client][connection.server] = null;
        connections.removeIf(each -> each.isClosed);
        return connection.close();
    }

    /** A node has ended: its own requests are forgotten, and its peers learn that their connections are broken. */
    void ended(int node) {
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

    private void carry(Connection connection, Connection.Direction direction, Connection.Pending request,
            boolean isResponse, ByteBuffer bytes, Runnable deliver) {
        int source = isResponse ? connection.server : connection.client;
        int target = isResponse ? connection.client : connection.server;
        Rules.Rule rule = rules.decide(request.apiKey(), isResponse, source, target, request.isPreVote());
        boolean isLost = isCut[source][target];
        digest(source, target, request.apiKey(), isResponse, bytes, isLost, rule);
        if (isLost) return;
        if (rule == null) direction.put(deliver, delayMs(), null);
        else act(rule, connection, direction, request, deliver);
    }

    private void act(Rules.Rule rule, Connection connection, Connection.Direction direction,
            Connection.Pending request, Runnable deliver) {
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
                () -> client(connection, () -> answered(connection, request, error(request.apiKey(), rule.errorCode))),
                delayMs(), null);
            default -> throw new IllegalArgumentException("unknown action " + rule.action);
        }
    }

    private void arrive(Connection connection, SimulatedNode server, Connection.Pending request, ByteBuffer bytes) {
        if (!server.isUp() || (connection.accepted != 0 && connection.accepted != server.incarnation())) {
            if (!connection.isClosed) reset(connection);
            return;
        }
        connection.accepted = server.incarnation();
        server.run(() -> receive(connection, server, request, bytes));
    }

    private void receive(Connection connection, SimulatedNode server, Connection.Pending request, ByteBuffer bytes) {
        int incarnation = server.incarnation();
        Consumer<ApiMessage> respond = data -> {
            if (server.incarnation() == incarnation && !connection.isClosed) respond(connection, request, data);
        };
        if (request.apiKey() == ApiKeys.API_VERSIONS.id) respond.accept(apiVersions());
        else server.receive(decoded(request.apiKey(), bytes, true, stableVersion(request.apiKey())), respond);
    }

    private void respond(Connection connection, Connection.Pending request, ApiMessage data) {
        ByteBuffer bytes = encoded(sendable(data));
        carry(connection, connection.responses, request, true, bytes, () -> client(connection, () -> answered(connection,
            request, decoded(request.apiKey(), bytes.duplicate(), false, stableVersion(request.apiKey())))));
    }

    /** What a process sends. Of a FetchSnapshot response with a partition's error, whose records are null, it can send
     * only that the request failed (ControllerApis; docs/findings/snapshot-errors.md). */
    private static ApiMessage sendable(ApiMessage data) {
        if (!(data instanceof FetchSnapshotResponseData snapshot)) return data;
        boolean isSendable = snapshot.topics().stream().flatMap(topic -> topic.partitions().stream())
            .allMatch(partition -> Release.hasRecords(partition));
        return isSendable ? data : new FetchSnapshotResponseData().setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code());
    }

    private void answered(Connection connection, Connection.Pending request, ApiMessage data) {
        if (connection.pending.remove(request.correlation()) != null) request.complete().accept(data);
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

    // ---------------------------------------------------------------- bytes

    static short stableVersion(short apiKey) {
        return ApiKeys.forId(apiKey).latestVersion(false);
    }

    static ByteBuffer encoded(ApiMessage data) {
        return encoded(data, stableVersion(data.apiKey()));
    }

    static ByteBuffer encoded(ApiMessage data, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(data.size(cache, version));
        Writable writable = new ByteBufferAccessor(bytes);
        data.write(data instanceof FetchSnapshotResponseData ? Release.withParts(writable) : writable, cache, version);
        bytes.flip();
        return bytes;
    }

    static ApiMessage decoded(short apiKey, ByteBuffer bytes, boolean isRequest, short version) {
        ApiMessageType type = ApiMessageType.fromApiKey(apiKey);
        ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
        message.read(new ByteBufferAccessor(bytes), version);
        return message;
    }

    private static ApiMessage unavailable(short apiKey) {
        return error(apiKey, Errors.BROKER_NOT_AVAILABLE.code());
    }

    private static ApiMessage error(short apiKey, short errorCode) {
        if (apiKey == ApiKeys.API_VERSIONS.id) return new ApiVersionsResponseData().setErrorCode(errorCode);
        return RaftUtil.errorResponse(ApiKeys.forId(apiKey), Errors.forCode(errorCode));
    }

    private static ApiMessage apiVersions() {
        var features = new ApiVersionsResponseData.SupportedFeatureKeyCollection();
        features.add(new ApiVersionsResponseData.SupportedFeatureKey()
            .setName("kraft.version").setMinVersion((short) 0).setMaxVersion((short) 1));
        return new ApiVersionsResponseData().setSupportedFeatures(features);
    }

    private static java.lang.reflect.Method preVoteAccessor() {
        for (var method : VoteRequestData.PartitionData.class.getDeclaredMethods())
            if (method.getName().equals("preVote")) return method;
        return null;
    }

    /** Whether a Vote is a pre-vote; null for other requests, and false in releases without Pre-Vote. */
    private static Boolean isPreVote(ApiMessage data) {
        if (!(data instanceof VoteRequestData vote)) return null;
        if (PRE_VOTE == null) return false;
        try {
            return (Boolean) PRE_VOTE.invoke(vote.topics().get(0).partitions().get(0));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
