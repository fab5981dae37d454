// What is seen of a node from outside: what its Raft client does goes to the invariants after each poll, and its status
// to Python when it has changed.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import splitbrain.simulation.Invariants;
import splitbrain.simulation.Reports;
import splitbrain.simulation.Simulation;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.Objects;

final class NodeObserver {
    // What status shows, without the end offsets of others.
    private record Known(EpochState state, int leader, long highWatermark, long endOffset, int lastEpoch, Object voters) { }

    private final Simulation simulation;
    private final SimulatedNode node;
    private final LogMirror mirror;

    private EpochState state;
    private long highWatermark;
    // The last VotersRecord that was read, and its voter set.
    private ByteBuffer lastVotersRecord;
    private Object lastVoters;

    private boolean isStatusDue;
    // What Python knows of this node; null after a command that it knows the effect of.
    private Known lastKnown;

    NodeObserver(Simulation simulation, SimulatedNode node, LogMirror mirror) {
        this.simulation = simulation;
        this.node = node;
        this.mirror = mirror;
    }

    /** The state of the Raft client when it was observed last; null before that. */
    EpochState state() {
        return state;
    }

    /** A process starts. */
    void started() {
        isStatusDue = true;
        state = null;
        highWatermark = -1;
    }

    /** The status may have changed. */
    void statusIsDue() {
        isStatusDue = true;
    }

    /** Python knows the effect of a command without a status. */
    void isKnown() {
        lastKnown = null;
    }

    /** Compare what the Raft client has done with the invariants. */
    void observe() {
        isStatusDue = true;
        Invariants invariants = simulation.invariants;
        boolean isChanged = mirror.update(node.id, node.disk(), invariants);
        EpochState current = Release.state(node.client().quorum());
        if (current != state) observeState(current);
        long offset = node.client().highWatermark().orElse(-1);
        if (offset != highWatermark) {
            if (offset >= 0) {
                invariants.highWatermark(node.id, offset);
                mirror.commit(node.id, current.epoch(), Math.max(highWatermark, 0), offset, invariants);
                // Voters that were appended in this step were not those that the high watermark was computed with.
                if (current instanceof LeaderState<?> && !(isChanged && simulation.isDynamic)) observeMajority(offset);
            }
            highWatermark = offset < 0 ? highWatermark : offset;
        }
        if (isChanged && simulation.isDynamic) observeVoters();
    }

    private void observeMajority(long offset) {
        int reached = 0;
        int voters = 0;
        for (int voter : node.voterIds()) {
            voters++;
            if (simulation.node(voter).endOffset() >= offset) reached++;
        }
        simulation.invariants.reached(node.id, offset, reached, voters);
    }

    private void observeState(EpochState current) {
        state = current;
        Invariants invariants = simulation.invariants;
        invariants.epoch(node.id, current.epoch());
        invariants.vote(node.id, current.epoch(), Release.voted(current));
        if (current instanceof LeaderState<?>) {
            invariants.leads(node.id, current.epoch());
            invariants.hasCommitted(node.id, current.epoch(), mirror.startOffset(), mirror::hashAt);
        }
    }

    private void observeVoters() {
        Object read = readVoters();
        Object held = VoterSets.SUPPORT.held(node.client());
        if (read == null || held.equals(read)) return;
        String heldIds = VoterSets.SUPPORT.ids(held).toString();
        String readIds = VoterSets.SUPPORT.ids(read).toString();
        boolean isSame = heldIds.equals(readIds);
        simulation.invariants.voters(node.id, isSame ? held.toString() : heldIds, isSame ? read.toString() : readIds);
    }

    /** The voters that the log names, or those of the snapshot that the disk was formatted with. */
    private Object readVoters() {
        ByteBuffer record = mirror.voters();
        if (record == null) return node.formattedVoters();
        if (record != lastVotersRecord) lastVoters = VoterSets.SUPPORT.read(record);
        lastVotersRecord = record;
        return lastVoters;
    }

    // ---------------------------------------------------------------- the status

    /** Put the status if it has changed since the last call; null in its place if the node does not execute. */
    void putChangedStatus(ObjectNode statuses) {
        if (!isStatusDue) return;
        isStatusDue = false;
        Known known = node.isExecuting() ? known() : null;
        if (Objects.equals(known, lastKnown)) return;
        lastKnown = known;
        statuses.set(String.valueOf(node.id), known == null ? null : status(known));
    }

    private Known known() {
        KafkaRaftClient<Long> client = node.client();
        EpochState current = Release.state(client.quorum());
        Object voters = current instanceof LeaderState<?> leader ? Release.endOffsets(leader)
            : simulation.isDynamic ? VoterSets.SUPPORT.held(client) : null;
        int leader = client.quorum().leaderId().orElse(-1);
        long offset = client.highWatermark().orElse(-1);
        return new Known(current, leader, offset, client.logEndOffset(), Release.lastEpoch(node.disk().log()), voters);
    }

    private ArrayNode status(Known known) {
        EpochState current = known.state;
        long offset = known.highWatermark;
        ArrayNode row = Reports.JSON.createArrayNode();
        row.add(current.name()).add(current.epoch()).add(known.leader).add(Release.voted(current)).add(offset);
        row.add(known.endOffset);
        LeaderState<?> leader = current instanceof LeaderState<?> leading ? leading : null;
        row.add(leader != null && offset > leader.epochStartOffset());
        row.add(known.lastEpoch).add(node.client().quorum().isVoter());
        ObjectNode voters = row.addObject();
        if (leader != null) ((Map<?, ?>) known.voters).forEach((voter, end) -> voters.put(voter.toString(), (Long) end));
        else for (int voter : node.voterIds()) voters.put(String.valueOf(voter), voter == node.id ? known.endOffset : -1);
        return row;
    }
}
