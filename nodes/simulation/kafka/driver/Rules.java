// The rules for messages between nodes, as harness/model/faults/rpc.py defines them: the first rule that matches a
// message and acts on it applies. A rule has counters and random numbers of its own; each match consumes a number.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

final class Rules {
    static final class Rule {
        final JsonNode json;
        final String name;
        final String action;
        final boolean loses;
        final int delayMs;
        final short errorCode;
        private final Set<Integer> apiKeys;
        private final Set<Integer> sources;
        private final Set<Integer> targets;
        private final boolean isForResponses;
        private final Boolean preVote;
        private final long nth;
        private final double probability;
        private final long limit;
        private final SplittableRandom random;
        private long matched;
        private long acted;
        // The messages that the rule holds at present.
        long holding;

        Rule(JsonNode json, long seed) {
            this.json = json;
            name = json.get("name").asText();
            action = json.get("do").asText();
            loses = json.path("loses").asBoolean();
            delayMs = json.path("delay_ms").asInt();
            errorCode = (short) json.path("error_code").asInt();
            apiKeys = numbers(json.path("api_keys"));
            sources = numbers(json.path("sources"));
            targets = numbers(json.path("targets"));
            isForResponses = json.path("direction").asText("request").equals("response");
            preVote = json.has("pre_vote") ? json.get("pre_vote").asBoolean() : null;
            nth = json.path("nth").asLong(0);
            probability = json.path("probability").asDouble(1);
            limit = json.path("limit").asLong(Long.MAX_VALUE);
            random = new SplittableRandom(seed * 31 + name.hashCode());
        }

        private static Set<Integer> numbers(JsonNode list) {
            Set<Integer> found = new HashSet<>();
            list.forEach(each -> found.add(each.asInt()));
            return found;
        }

        private boolean matches(short apiKey, boolean isResponse, int source, int target, Boolean isPreVote) {
            return isResponse == isForResponses
                && (apiKeys.isEmpty() || apiKeys.contains((int) apiKey))
                && (sources.isEmpty() || sources.contains(source))
                && (targets.isEmpty() || targets.contains(target))
                && (preVote == null || preVote.equals(isPreVote));
        }

        private boolean acts() {
            matched++;
            boolean isSampled = probability >= 1 || random.nextDouble() < probability;
            boolean acts = isSampled && (nth == 0 || nth == matched) && acted < limit;
            if (acts) acted++;
            return acts;
        }
    }

    private final long seed;
    private List<Rule> rules = List.of();

    Rules(long seed) {
        this.seed = seed;
    }

    /** Replace all rules; unchanged ones keep their counters and the messages that they hold. Returns those that end. */
    List<Rule> replace(JsonNode replacement) {
        Map<JsonNode, Rule> current = new LinkedHashMap<>();
        for (Rule rule : rules) current.put(rule.json, rule);
        List<Rule> next = new ArrayList<>();
        for (JsonNode json : replacement) {
            Rule kept = current.remove(json);
            next.add(kept == null ? new Rule(json, seed) : kept);
        }
        rules = next;
        return new ArrayList<>(current.values());
    }

    /** The rule that acts on a message; null if it passes. */
    Rule decide(short apiKey, boolean isResponse, int source, int target, Boolean isPreVote) {
        for (Rule rule : rules)
            if (rule.matches(apiKey, isResponse, source, target, isPreVote) && rule.acts()) return rule;
        return null;
    }

    ObjectNode counts() {
        return counts(rules);
    }

    static ObjectNode counts(List<Rule> of) {
        ObjectNode all = Reports.JSON.createObjectNode();
        for (Rule rule : of) all.putArray(rule.name).add(rule.matched).add(rule.acted).add(rule.holding);
        return all;
    }
}
