// A small state machine in the place of the QuorumController: it applies what is committed, and serves clients.
//
// It answers as QuorumController does: a write is appended by the active controller and answered when it is committed;
// other nodes refuse it and name the active one; a controller that loses its leadership fails the writes that wait
// without a name, because they may still be committed. It writes a record without content from time to time
// (NoOpRecord, metadata.max.idle.interval.ms). It makes a snapshot of what it applied after so many bytes of records
// (metadata.log.max.record.bytes.between.snapshots), and the log before the latest one is deleted when it is larger than
// metadata.max.retention.bytes.
package org.apache.kafka.raft;

import org.apache.kafka.raft.errors.BufferAllocationException;
import org.apache.kafka.raft.errors.NotLeaderException;
import org.apache.kafka.snapshot.SnapshotReader;
import splitbrain.simulation.Simulation;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

final class Controller implements RaftClient.Listener<Long> {
    private final Simulation simulation;
    private final SimulatedNode node;
    private final long snapshotBytes;
    private final long retentionBytes;

    private int activeEpoch = -1;
    private int knownLeader = -1;
    private final Map<Long, Long> pendingWrites = new LinkedHashMap<>();
    private final Set<Long> openCalls = new LinkedHashSet<>();
    // What it applied, in order, and where the next snapshot would end.
    private final List<Long> image = new ArrayList<>();
    private Batch<Long> lastApplied;
    private long bytesSinceSnapshot;
    // The size of the log as far as it was applied.
    private long logBytes;

    Controller(Simulation simulation, SimulatedNode node, Map<String, String> properties) {
        this.simulation = simulation;
        this.node = node;
        snapshotBytes = ServerLog.number(properties, "metadata.log.max.record.bytes.between.snapshots", 20 << 20);
        retentionBytes = ServerLog.number(properties, ServerLog.RETENTION_BYTES, ServerLog.RETENTION_BYTES_DEFAULT);
    }

    /** A process starts: nothing is applied yet. */
    void started() {
        activeEpoch = -1;
        knownLeader = -1;
        image.clear();
        bytesSinceSnapshot = 0;
        logBytes = 0;
    }

    /** The process has ended: the calls that it has not answered get no answer. */
    void ended() {
        pendingWrites.clear();
        for (long call : List.copyOf(openCalls)) answer(call, "none", null);
    }

    // ---------------------------------------------------------------- what the Raft client reports

    @Override
    public void handleCommit(BatchReader<Long> reader) {
        try (reader) {
            while (reader.hasNext()) {
                Batch<Long> batch = reader.next();
                long offset = batch.baseOffset();
                for (long value : batch.records()) commit(offset++, value);
                lastApplied = batch;
                bytesSinceSnapshot += batch.sizeInBytes();
                logBytes += batch.sizeInBytes();
            }
        }
    }

    private void commit(long offset, long value) {
        simulation.invariants.applied(node.id, offset, value);
        if (value < 0) return;
        image.add(value);
        simulation.reports.commit(node.id, value);
        Long call = pendingWrites.remove(value);
        if (call != null) answer(call, "ok", null);
    }

    /** Begin with a snapshot; the one that a quorum is formatted with has nothing but voters. */
    @Override
    public void handleLoadSnapshot(SnapshotReader<Long> reader) {
        try (reader) {
            image.clear();
            while (reader.hasNext()) image.addAll(reader.next().records());
            bytesSinceSnapshot = 0;
            simulation.invariants.loaded(node.id, reader.lastContainedLogOffset() + 1, image);
            simulation.reports.load(node.id, image);
        }
    }

    public void handleLoadBootstrap(SnapshotReader<Long> reader) {  // of some releases only
        reader.close();
    }

    @Override
    public void handleLeaderChange(LeaderAndEpoch leader) {
        knownLeader = leader.leaderId().orElse(-1);
        if (knownLeader == node.id) claim(leader.epoch());
        else renounce();
    }

    @Override
    public void beginShutdown() { }

    // ---------------------------------------------------------------- snapshots

    boolean isSnapshotDue() {
        return bytesSinceSnapshot >= snapshotBytes;
    }

    void makeSnapshot() {
        bytesSinceSnapshot = 0;
        long end = lastApplied.lastOffset() + 1;
        Release.snapshot(node.client(), end, lastApplied.epoch(), lastApplied.appendTimestamp()).ifPresent(writer -> {
            try (writer) {
                writer.append(List.copyOf(image));
                writer.freeze();
            }
            if (logBytes <= retentionBytes) return;
            Release.deleteBefore(node.disk().log(), end, lastApplied.epoch());
            logBytes = 0;
        });
    }

    // ---------------------------------------------------------------- the active controller

    private void claim(int epoch) {
        activeEpoch = epoch;
        if (simulation.idleMs > 0) node.runAfter(simulation.idleMs, () -> writeNoOp(epoch));
    }

    private void writeNoOp(int epoch) {
        if (activeEpoch != epoch) return;
        append(simulation.noOp());
        node.runAfter(simulation.idleMs, () -> writeNoOp(epoch));
    }

    private void renounce() {
        activeEpoch = -1;
        List<Long> calls = List.copyOf(pendingWrites.values());
        pendingWrites.clear();
        for (long call : calls) answer(call, "not-controller", null);
    }

    // ---------------------------------------------------------------- clients

    /** A client's call arrives, and is open until it is answered. */
    void opened(long call) {
        openCalls.add(call);
    }

    void write(long call, long value) {
        if (activeEpoch < 0) {
            boolean isNamed = knownLeader >= 0 && knownLeader != node.id;
            answer(call, "not-controller", isNamed ? String.valueOf(knownLeader) : null);
            return;
        }
        pendingWrites.put(value, call);
        append(value);
    }

    private void append(long value) {
        try {
            Release.append(node.client(), activeEpoch, value);
        } catch (NotLeaderException | BufferAllocationException refused) {
            renounce();
        }
    }

    void read(long call) {
        simulation.reports.arrive(call);
        answer(call, "read", null);
    }

    void answer(long call, String result, String value) {
        if (openCalls.remove(call)) simulation.answer(call, node.id, result, value);
    }
}
