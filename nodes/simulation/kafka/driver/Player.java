// Carries out a whole schedule without Python: commands at fixed times. nodes/simulation/schedule.py does the same with a
// SimulatedCluster, command by command; the digests of both are equal.
//
// A command is [time, name, who, argument]. who are the nodes: a number as n2, leader, all, down or paused, looked up at
// that time; a command without nodes that it can affect does nothing. After the last command, time passes until a leader
// has committed a record of its epoch, or for RECOVERY_MS. A broken invariant, other than no-spin, ends the run.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.HashSet;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.function.Predicate;
import java.util.stream.IntStream;

final class Player {
    private static final int RECOVERY_MS = 20_000;
    private static final int RECOVERY_STEP_MS = 100;

    private final Simulation simulation;
    private final BiConsumer<String, JsonNode> carryOut;
    private final Set<Integer> stopping = new HashSet<>();
    private int calls;
    private int writes;

    /** carryOut executes a command of the driver. */
    Player(Simulation simulation, BiConsumer<String, JsonNode> carryOut) {
        this.simulation = simulation;
        this.carryOut = carryOut;
        simulation.reports.count();
    }

    ObjectNode play(JsonNode commands, long endMs) {
        for (JsonNode command : commands) {
            if (command.get(0).asLong() > simulation.nowMs()) simulation.advance(command.get(0).asLong());
            if (isBroken()) break;
            act(command.get(1).asText(), command.get(2).asText(), command.get(3));
        }
        if (!isBroken()) simulation.advance(endMs);
        boolean recovered = isBroken() || recovers(endMs);
        ObjectNode result = simulation.reports.counted();
        if (!recovered) result.set("unrecovered", simulation.changedStatuses());  // of all nodes: the first time
        result.put("calls", calls).put("now", simulation.nowMs()).put("digest", simulation.reports.digest());
        return result;
    }

    private boolean isBroken() {
        return simulation.reports.isBroken;
    }

    private boolean recovers(long endMs) {
        for (long atMs = endMs + RECOVERY_STEP_MS; atMs <= endMs + RECOVERY_MS; atMs += RECOVERY_STEP_MS) {
            simulation.advance(atMs);
            int leader = leader();
            if (isBroken() || leader > 0 && simulation.node(leader).hasCommittedAsLeader()) return true;
        }
        return false;
    }

    private void act(String name, String who, JsonNode argument) {
        switch (name) {
            case "start" -> nodes(who).filter(this::isDown).forEach(this::start);
            case "lose_unsynced" -> each(name, who, node -> !node.isUp());
            case "kill" -> each(name, who, Node::isUp);
            case "stop" -> {
                nodes(who).filter(node -> simulation.node(node).isExecuting()).forEach(stopping::add);
                each(name, who, Node::isExecuting);
            }
            case "pause" -> each(name, who, Node::isExecuting);
            case "resume" -> each(name, who, node -> node.isUp() && !node.isExecuting());
            case "isolate" -> nodes(who).forEach(node -> isolate(node, argument.asText()));
            case "change_version" -> nodes(who).filter(node -> !simulation.node(node).isUp())
                .forEach(node -> send("change", command("change").add(node).addAll((ArrayNode) argument)));
            case "cut", "restore", "intercept" -> send(name, command(name).add(argument));
            default -> nodes(who).filter(node -> simulation.node(node).isUp()).limit(1)
                .forEach(node -> call(name, node, argument));
        }
    }

    private void each(String name, String who, Predicate<Node> isAffected) {
        nodes(who).filter(node -> isAffected.test(simulation.node(node)))
            .forEach(node -> send(name, command(name).add(node)));
    }

    /** Whether the node does not run, or was told to stop: its shutdown may take seconds. */
    private boolean isDown(int node) {
        return !simulation.node(node).isUp() || stopping.contains(node);
    }

    private void start(int node) {
        if (simulation.node(node).isUp()) send("kill", command("kill").add(node));
        stopping.remove(node);
        send("start", command("start").add(node));
    }

    private void isolate(int node, String direction) {
        ArrayNode command = command("cut");
        ArrayNode links = command.addArray();
        for (int peer = 1; peer <= simulation.nodeCount; peer++) {
            if (peer == node) continue;
            if (!direction.equals("in")) links.addArray().add(node).add(peer);
            if (!direction.equals("out")) links.addArray().add(peer).add(node);
        }
        send("cut", command);
    }

    private void call(String name, int node, JsonNode argument) {
        ArrayNode command = command(name).add(calls++).add(node);
        if (name.equals("write")) command.add(writes++);
        else if (!name.equals("read")) command.addAll((ArrayNode) argument);
        send(name, command);
    }

    private static ArrayNode command(String name) {
        return Reports.JSON.createArrayNode().add(name);
    }

    private void send(String name, ArrayNode command) {
        carryOut.accept(name, command);
    }

    private IntStream nodes(String who) {
        IntStream all = IntStream.rangeClosed(1, simulation.nodeCount);
        return switch (who) {
            case "all" -> all;
            case "down" -> all.filter(this::isDown);
            case "paused" -> all.filter(node -> simulation.node(node).isUp() && !simulation.node(node).isExecuting());
            case "leader" -> IntStream.of(leader()).filter(node -> node > 0);
            default -> IntStream.of(Integer.parseInt(who.substring(1)));
        };
    }

    /** The node that executes and leads in the highest epoch; 0 if there is none. */
    private int leader() {
        int leader = 0;
        int epoch = -1;
        for (int node = 1; node <= simulation.nodeCount; node++) {
            int led = simulation.node(node).ledEpoch();
            if (led <= epoch) continue;
            leader = node;
            epoch = led;
        }
        return leader;
    }
}
