// What happened since the last reply, in order, as JSON: the driver sends it to Python with the next reply.
//
//     ["log", time, node, text]          a line of the node's log: a transition or a note
//     ["commit", node, first, last]      the node's state machine applied these values, in order
//     ["load", node, [value, …]]         the node's state machine begins with a snapshot of these values
//     ["arrive", call]                   a client's read is about to be answered from what the node applied so far
//     ["answer", call, result, …]        the end of a client's call
//     ["exited", time, node, detail]     the client threw an exception that ends the node's process
//     ["stopped", time, node]            the node's graceful shutdown is complete
//     ["violation", time, node, invariant, message]
//
// Everything that is reported, and every message, is part of the digest.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class Reports {
    public static final ObjectMapper JSON = new ObjectMapper();
    private static final String NO_SPIN = "no-spin";
    private static final long PRIME = 1099511628211L;

    private ArrayNode rows = JSON.createArrayNode();
    private ArrayNode lastCommit;
    private long hash = 1469598103934665603L;
    // Whether something was reported that a caller of advance waits for.
    boolean wakes;
    // Whether an invariant other than no-spin was broken.
    boolean isBroken;
    // Whether rows are counted, not kept.
    private boolean isCounting;
    private int answers;
    private int exits;
    // The first message of each broken invariant.
    private final Map<String, String> broken = new LinkedHashMap<>();

    /** From now on, count what is reported: nobody reads it. */
    void count() {
        isCounting = true;
    }

    ObjectNode counted() {
        ObjectNode counts = JSON.createObjectNode().put("answers", answers).put("exits", exits);
        ArrayNode names = counts.putArray("broken");
        broken.forEach((invariant, message) -> names.addArray().add(invariant).add(message));
        return counts;
    }

    public void digest(long value) {
        hash = (hash ^ value) * PRIME;
        hash ^= hash >>> 29;
    }

    void digest(String text) {
        digest(text.hashCode() * 31L + text.length());
    }

    String digest() {
        return "0".repeat(Long.numberOfLeadingZeros(hash | 1) / 4) + Long.toHexString(hash);
    }

    public void log(long nowMs, int node, String text) {
        wakes = !isCounting;
        digest(nowMs);
        digest(text);
        add("log").add(nowMs).add(node).add(text);
    }

    public void commit(int node, long value) {
        digest(node * 31L + value);
        if (lastCommit != null && lastCommit.get(1).intValue() == node && lastCommit.get(3).longValue() + 1 == value) {
            lastCommit.set(3, value);
            return;
        }
        ArrayNode row = add("commit").add(node).add(value).add(value);
        lastCommit = row;
    }

    public void load(int node, List<Long> values) {
        digest(node * 31L + values.hashCode());
        ArrayNode loaded = add("load").add(node).addArray();
        for (long value : values) loaded.add(value);
    }

    public void arrive(long call) {
        digest(call);
        add("arrive").add(call);
    }

    /** The end of a call; the caller may add what belongs to the result. */
    ArrayNode answer(long call, String result) {
        wakes = !isCounting;
        digest(call);
        digest(result);
        if (!result.equals("none")) answers++;
        return add("answer").add(call).add(result);
    }

    public void exited(long nowMs, int node, String detail) {
        wakes = !isCounting;
        digest(detail);
        exits++;
        add("exited").add(nowMs).add(node).add(detail);
    }

    public void stopped(long nowMs, int node) {
        wakes = !isCounting;
        digest(nowMs);
        add("stopped").add(nowMs).add(node);
    }

    void violation(long nowMs, int node, String invariant, String message) {
        digest(message);
        broken.putIfAbsent(invariant, message);
        isBroken |= !invariant.equals(NO_SPIN);
        add("violation").add(nowMs).add(node).add(invariant).add(message);
    }

    /** Bytes as text, in base64. */
    public static String text(ByteBuffer bytes) {
        byte[] content = new byte[bytes.remaining()];
        bytes.duplicate().get(content);
        return Base64.getEncoder().encodeToString(content);
    }

    /** What was reported since the last call. */
    ArrayNode take() {
        ArrayNode taken = rows;
        rows = JSON.createArrayNode();
        lastCommit = null;
        wakes = false;
        return taken;
    }

    private ArrayNode add(String kind) {
        lastCommit = null;
        ArrayNode row = isCounting ? JSON.createArrayNode() : rows.addArray();
        return row.add(kind);
    }
}
