// What must hold in every run, whatever the faults. Each invariant has a stable name; it is reported once for each node
// and, where the message says more, once for each message.
//
// Sources: Ongaro and Ousterhout, In Search of an Understandable Consensus Algorithm, figure 3 (election safety, log
// matching, leader completeness, state machine safety); Kafka's RaftEventSimulationTest (MonotonicEpoch,
// MonotonicHighWatermark, MajorityReachedHighWatermark, SingleLeader, ConsistentCommittedData); KIP-595 (a voter votes
// once in an epoch); KIP-853 (the latest VotersRecord of its own log is a replica's voter set, also while it is not
// committed).
//
// Contains the rules over plain values. Does not contain Kafka's classes.
package splitbrain.simulation;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongUnaryOperator;

public final class Invariants {
    interface Report {
        void violation(int node, String invariant, String message);
    }

    // The hash of a log up to an offset, the epoch of the node that first reported it as committed, and the voters there.
    public record Committed(long lastOffset, long logHash, int epoch, int node, ByteBuffer voters) { }

    private final Report report;
    private final Set<String> reported = new HashSet<>();
    private final Map<Integer, Integer> leaders = new HashMap<>();
    private final Map<Integer, Integer> epochs = new HashMap<>();
    private final Map<Integer, int[]> votes = new HashMap<>();
    private final Map<Integer, Long> highWatermarks = new HashMap<>();
    private final Map<Long, Map<Integer, Long>> logHashes = new HashMap<>();
    private final List<Committed> committed = new ArrayList<>();
    private final Map<Long, Committed> committedAt = new HashMap<>();
    private final TreeMap<Long, Long> applied = new TreeMap<>();
    private boolean isDiskLost = false;

    Invariants(Report report) {
        this.report = report;
    }

    private void broken(int node, String invariant, String occasion, String message) {
        if (reported.add(invariant + " " + node + " " + occasion)) report.violation(node, invariant, message);
    }

    /** election-safety: an epoch has one leader (Raft, Election Safety; SingleLeader). */
    public void leads(int node, int epoch) {
        Integer other = leaders.putIfAbsent(epoch, node);
        if (other != null && other != node)
            broken(node, "election-safety", "" + epoch, "nodes " + other + " and " + node + " lead in epoch " + epoch);
    }

    /** monotonic-epoch: a node's epoch does not decrease, also not over restarts (MonotonicEpoch). */
    public void epoch(int node, int epoch) {
        Integer before = epochs.put(node, epoch);
        if (before != null && before > epoch)
            broken(node, "monotonic-epoch", "" + epoch, "the epoch goes from " + before + " to " + epoch);
    }

    /** monotonic-vote: a node votes for one candidate in an epoch, also over restarts (KIP-595, Vote). */
    public void vote(int node, int epoch, int candidate) {
        if (candidate < 0) return;
        int[] before = votes.put(node, new int[] {epoch, candidate});
        if (before != null && before[0] == epoch && before[1] != candidate)
            broken(node, "monotonic-vote", "" + epoch,
                "in epoch " + epoch + " it votes for " + before[1] + " and for " + candidate);
    }

    /** monotonic-high-watermark: while a node runs, its high watermark does not decrease (MonotonicHighWatermark). */
    public void highWatermark(int node, long offset) {
        Long before = highWatermarks.put(node, offset);
        if (before != null && before > offset)
            broken(node, "monotonic-high-watermark", "" + offset,
                "the high watermark goes from " + before + " to " + offset);
    }

    /** A node starts: it does not know its high watermark. */
    public void starts(int node) {
        highWatermarks.remove(node);
    }

    /** A node's disk was lost, and with it its epoch and its vote. */
    public void losesDisk(int node) {
        epochs.remove(node);
        votes.remove(node);
        isDiskLost = true;
    }

    /** majority-reached-high-watermark: a leader's high watermark is not beyond the logs of a majority of its voters
     * (MajorityReachedHighWatermark). It is not checked once a disk was lost: what was acknowledged may be gone. */
    public void reached(int node, long offset, int reached, int voters) {
        if (!isDiskLost && reached <= voters / 2)
            broken(node, "majority-reached-high-watermark", "" + offset,
                "its high watermark is " + offset + ", which the logs of " + reached + " of " + voters + " voters reach");
    }

    /** log-matching: logs that have the same epoch at an offset are equal up to there (Raft, Log Matching). */
    public void appended(int node, long lastOffset, int epoch, long logHash) {
        Long other = logHashes.computeIfAbsent(lastOffset, key -> new HashMap<>(2)).putIfAbsent(epoch, logHash);
        if (other != null && other != logHash)
            broken(node, "log-matching", "",
                "its log differs from another up to offset " + lastOffset + ", where both have epoch " + epoch);
    }

    /** state-machine-safety: what is committed at an offset is the same on all nodes (Raft, State Machine Safety). */
    public void committed(int node, int epoch, long lastOffset, long logHash, ByteBuffer voters) {
        Committed before = committedAt.get(lastOffset);
        if (before == null) {
            Committed now = new Committed(lastOffset, logHash, epoch, node, voters);
            committedAt.put(lastOffset, now);
            committed.add(now);
        } else if (before.logHash != logHash) {
            broken(node, "state-machine-safety", "", "the log that is committed up to offset " + lastOffset
                + " in epoch " + epoch + " is not the one that node " + before.node + " committed in epoch " + before.epoch);
        }
    }

    /** state-machine-safety: all state machines apply the same value at an offset (ConsistentCommittedData). */
    public void applied(int node, long offset, long value) {
        Long before = applied.putIfAbsent(offset, value);
        if (before != null && before != value)
            broken(node, "state-machine-safety", "", "it applies value " + value + " at offset " + offset
                + ", where another node applied " + before);
    }

    /** What was committed up to this offset; null if nothing is known to end there. */
    public Committed committedBefore(long endOffset) {
        return committedAt.get(endOffset - 1);
    }

    /** snapshot-of-committed: a snapshot ends where a record was committed (KIP-630). */
    public void snapshotEnd(int node, long endOffset) {
        if (committedBefore(endOffset) == null)
            broken(node, "snapshot-of-committed", "" + endOffset, "it has a snapshot that ends at offset " + endOffset
                + ", where nothing was committed");
    }

    /** snapshot-of-committed: a snapshot holds what was applied below its end, in order (KIP-630). */
    public void loaded(int node, long endOffset, List<Long> values) {
        List<Long> expected = applied.headMap(endOffset).values().stream().filter(value -> value >= 0).toList();
        if (!expected.equals(values))
            broken(node, "snapshot-of-committed", "" + endOffset, "its snapshot up to offset " + endOffset + " has "
                + values.size() + " values that are not the " + expected.size() + " that were applied");
    }

    /** leader-completeness: a leader has what earlier epochs committed (Raft, Leader Completeness).
     *
     * hashAt returns the hash of the leader's log up to the batch that ends with an offset, 0 if there is none. What is
     * before its start is in a snapshot.
     */
    public void hasCommitted(int node, int epoch, long startOffset, LongUnaryOperator hashAt) {
        int last = committed.size() - 1;
        while (last >= 0 && committed.get(last).epoch >= epoch) last--;
        if (last < 0) return;
        Committed required = committed.get(last);
        if (required.lastOffset >= startOffset && hashAt.applyAsLong(required.lastOffset) != required.logHash)
            broken(node, "leader-completeness", "" + epoch, "the leader of epoch " + epoch + " lacks what node "
                + required.node + " committed up to offset " + required.lastOffset + " in epoch " + required.epoch);
    }

    /** voter-set-matches-log: a node's voter set is the latest of its own log (KIP-853, Voter Changes). */
    public void voters(int node, String held, String read) {
        if (!held.equals(read))
            broken(node, "voter-set-matches-log", held + read, "its voter set is " + held + ", its log says " + read);
    }

    /** no-exception: the client does not end the process by an exception. */
    public void throwsException(int node, String detail) {
        broken(node, "no-exception", detail, detail);
    }

    /** no-spin: the client does not ask for another poll without a wait again and again while nothing changes. */
    public void spins(int node, String state) {
        broken(node, "no-spin", state, "as " + state + ", it polls again and again without a wait");
    }
}
