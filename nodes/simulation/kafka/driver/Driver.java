// The process that Python drives: it reads lines of commands and writes a line of reply to each.
//
// A line is a JSON array of commands, each an array of its name and arguments; they are carried out in order. The reply
// is a JSON object: now, next (the time of the next event; without it there is none), reports (Reports.java), status (of
// the nodes whose status has changed), result (that of the last command that has one), or error.
//
//     [["start",1],["start",2],["advance",5000]]
//     {"now":1203,"status":{"1":["Leader",1,1,1,-1,0,false,0,true,{"1":0,"2":-1}],…},"next":1205,"reports":[["log",…]]}
//
// The arguments of the program are class paths, one for each release that nodes may run: directories and jars, or
// DIRECTORY/* for its jars. Each release has a class loader of its own; nothing but the driver is shared.
//
// One simulation exists at a time; open replaces it. Commands: open, close, start, kill, stop, pause, resume,
// lose_unsynced, lose_disk, lose_quorum_state, change, cut, restore, intercept, rule_counts, write, read, request, advance,
// digest, log; without a simulation, describe (what this release has), capture (the log lines to report), check
// (invariants over given facts), play (Player.java: whole runs, of which the reply has the results alone).
package splitbrain.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;

public final class Driver {
    private final List<KafkaRelease> releases;
    private Simulation simulation;

    private Driver(List<KafkaRelease> releases) {
        this.releases = releases;
    }

    public static void main(String[] arguments) throws Exception {
        SetOrder.fix();
        PrintStream replies = System.out;
        System.setOut(System.err);  // nothing else may write between the replies
        List<KafkaRelease> releases = new ArrayList<>();
        for (String classPath : arguments) releases.add(loaded(classPath));
        new Driver(releases).serve(
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)),
            new PrintWriter(new BufferedWriter(new OutputStreamWriter(replies, StandardCharsets.UTF_8))));
    }

    private static KafkaRelease loaded(String classPath) throws Exception {
        List<URL> places = new ArrayList<>();
        for (String place : classPath.split(File.pathSeparator)) {
            if (!place.endsWith("/*")) {
                places.add(new File(place).toURI().toURL());
                continue;
            }
            File[] jars = new File(place.substring(0, place.length() - 2)).listFiles((folder, name) -> name.endsWith(".jar"));
            Arrays.sort(jars);
            for (File jar : jars) places.add(jar.toURI().toURL());
        }
        ClassLoader loader = new URLClassLoader(places.toArray(new URL[0]), Driver.class.getClassLoader());
        Class<?> type = Class.forName(KafkaRelease.IMPLEMENTATION, true, loader);
        return (KafkaRelease) type.getDeclaredConstructor().newInstance();
    }

    private void serve(BufferedReader in, PrintWriter out) throws IOException {
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode reply;
            try {
                reply = answer(Reports.JSON.readTree(line));
            } catch (Refused refused) {
                reply = Reports.JSON.createObjectNode().put("refused", refused.getMessage());
            } catch (Exception | StackOverflowError error) {
                reply = Reports.JSON.createObjectNode().put("error", error + " at " + Arrays.toString(error.getStackTrace()));
            }
            out.println(reply);
            out.flush();
        }
    }

    private ObjectNode answer(JsonNode commands) {
        JsonNode result = null;
        for (JsonNode command : commands) {
            JsonNode own = carryOut(command.get(0).asText(), command);
            if (own != null) result = own;
        }
        ObjectNode reply = simulation == null ? Reports.JSON.createObjectNode() : simulation.reply();
        if (result != null) reply.set("result", result);
        return reply;
    }

    private JsonNode carryOut(String name, JsonNode command) {
        switch (name) {
            case "describe": return describe();
            case "capture": releases.forEach(release -> release.capture(texts(command.get(1)))); return null;
            case "check": return check(command.get(1));
            case "open": close(); simulation = new Simulation(command.get(1), releases); return null;
            case "close": close(); return null;
            case "play": return play(command.get(1));
            case "advance": simulation.advance(command.get(1).asLong()); return null;
            case "rule_counts": return simulation.network.ruleCounts();
            case "log": return simulation.node(command.get(1).asInt()).logContents();
            case "digest": return Reports.JSON.getNodeFactory().textNode(simulation.reports.digest());
            default: break;
        }
        simulation.reports.digest(command.toString());
        return changed(name, command);
    }

    private JsonNode changed(String name, JsonNode command) {
        int number = command.path(1).asInt();
        switch (name) {
            case "start": simulation.node(number).start(); return null;
            case "kill": simulation.node(number).kill(); return null;
            case "stop": simulation.node(number).stop(); return null;
            case "pause": simulation.node(number).pause(); return null;
            case "resume": simulation.node(number).resume(); return null;
            case "lose_unsynced": simulation.node(number).loseUnsynced(); return null;
            case "lose_disk": simulation.node(number).loseDisk(); return null;
            case "lose_quorum_state": simulation.node(number).loseQuorumState(); return null;
            case "change": simulation.change(number, command.get(2).asInt(), command.get(3)); return null;
            case "cut": setCut(command.get(1), true); return null;
            case "restore": setCut(command.get(1), false); return null;
            case "intercept": return simulation.network.intercept(command.get(1));
            default: break;
        }
        int node = command.get(2).asInt();
        switch (name) {
            case "write": simulation.call(number, node, server -> server.write(number, command.get(3).asLong())); break;
            case "read": simulation.call(number, node, server -> server.read(number)); break;
            case "request": request(number, node, command); break;
            default: throw new IllegalArgumentException("unknown command " + name);
        }
        return null;
    }

    /** Whole runs, one after the other, each of its specification, its commands and its end. */
    private ArrayNode play(JsonNode runs) {
        ArrayNode results = Reports.JSON.createArrayNode();
        for (JsonNode run : runs) {
            close();
            simulation = new Simulation(run.get(0), releases);
            results.add(new Player(simulation, this::carryOut).play(run.get(1), run.get(2).asLong()));
        }
        close();
        return results;
    }

    private void request(int call, int node, JsonNode command) {
        short apiKey = (short) command.get(3).asInt();
        short version = (short) command.get(4).asInt();
        ByteBuffer bytes = ByteBuffer.wrap(Base64.getDecoder().decode(command.get(5).asText()));
        simulation.call(call, node, server -> server.request(call, apiKey, version, bytes.duplicate()));
    }

    private void setCut(JsonNode links, boolean isCut) {
        if (links.isNull()) simulation.network.restoreAll();
        for (JsonNode link : links) simulation.network.setCut(link.get(0).asInt(), link.get(1).asInt(), isCut);
    }

    private void close() {
        if (simulation != null) simulation.close();
        simulation = null;
    }

    private ArrayNode describe() {
        ArrayNode all = Reports.JSON.createArrayNode();
        for (KafkaRelease release : releases) {
            ObjectNode described = all.addObject().put("has_dynamic_voters", release.hasDynamicVoters());
            ArrayNode settings = described.putArray("settings");
            release.settingNames().forEach(settings::add);
            ObjectNode versions = described.putObject("versions");
            release.versions().forEach((api, ends) -> versions.putArray(api.toString()).add(ends[0]).add(ends[1]));
        }
        return all;
    }

    /** The violations in a list of facts, each a method of Invariants and its arguments. */
    private static ArrayNode check(JsonNode facts) {
        ArrayNode found = Reports.JSON.createArrayNode();
        Invariants invariants = new Invariants((node, invariant, message) ->
            found.addArray().add(node).add(invariant).add(message));
        for (JsonNode fact : facts) {
            int node = fact.get(1).asInt();
            long second = fact.path(2).asLong();
            int epoch = (int) second;
            long third = fact.path(3).asLong();
            long fourth = fact.path(4).asLong();
            switch (fact.get(0).asText()) {
                case "leads": invariants.leads(node, epoch); break;
                case "epoch": invariants.epoch(node, epoch); break;
                case "vote": invariants.vote(node, epoch, (int) third); break;
                case "high_watermark": invariants.highWatermark(node, second); break;
                case "reached": invariants.reached(node, second, (int) third, (int) fourth); break;
                case "starts": invariants.starts(node); break;
                case "loses_disk": invariants.losesDisk(node); break;
                case "appended": invariants.appended(node, second, (int) third, fourth); break;
                case "committed": invariants.committed(node, epoch, third, fourth, null); break;
                case "applied": invariants.applied(node, second, third); break;
                case "has_committed": invariants.hasCommitted(node, epoch, 0, offset -> offset == third ? fourth : 0); break;
                case "snapshot_end": invariants.snapshotEnd(node, second); break;
                case "loaded": invariants.loaded(node, second, List.of(third)); break;
                case "voters": invariants.voters(node, fact.get(2).asText(), fact.get(3).asText()); break;
                case "throws": invariants.throwsException(node, fact.get(2).asText()); break;
                case "spins": invariants.spins(node, fact.get(2).asText()); break;
                default: throw new IllegalArgumentException("unknown fact " + fact);
            }
        }
        return found;
    }

    private static List<String> texts(JsonNode list) {
        List<String> found = new ArrayList<>();
        list.forEach(each -> found.add(each.asText()));
        return found;
    }
}
