// VoterSets with the classes of releases that have KIP-853, from 3.9 on.
package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.raft.internals.KRaftControlRecordStateMachine;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.serialization.RecordSerde;
import org.apache.kafka.snapshot.RecordsSnapshotWriter;
import org.apache.kafka.snapshot.Snapshots;

import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;

final class DynamicVoters implements VoterSets {
    private static final Field PARTITION_STATE = Release.field(KafkaRaftClient.class, "partitionState");

    DynamicVoters() { }

    @Override
    public Object of(Map<Integer, Uuid> voters) {
        Map<Integer, VoterSet.VoterNode> nodes = new TreeMap<>();
        voters.forEach((id, directory) -> nodes.put(id, (VoterSet.VoterNode) Release.create(VoterSet.VoterNode.class, null,
            ReplicaKey.of(id, directory), Release.endpoints(id), Release.supportedKRaftVersions())));
        return VoterSet.fromMap(nodes);
    }

    @Override
    public void format(Object log, Time time, RecordSerde<Long> serde, Object voters) {
        var builder = new RecordsSnapshotWriter.Builder()
            .setTime(time)
            .setKraftVersion(KRaftVersion.KRAFT_VERSION_1)
            .setVoterSet(Optional.of((VoterSet) voters))
            .setRawSnapshotWriter(Release.newSnapshot(log, Snapshots.BOOTSTRAP_SNAPSHOT_ID));
        try (var writer = builder.build(serde)) {
            writer.freeze();
        }
    }

    @Override
    public Object held(KafkaRaftClient<?> client) {
        return ((KRaftControlRecordStateMachine) Release.get(PARTITION_STATE, client)).lastVoterSet();
    }

    @Override
    public Object read(ByteBuffer value) {
        return VoterSet.fromVotersRecord(new VotersRecord(new ByteBufferAccessor(value.duplicate()), (short) 0));
    }

    @Override
    public Collection<Integer> ids(Object voters) {
        return new TreeSet<>(((VoterSet) voters).voterIds());
    }
}
