// Voter sets that the log names (KIP-853), which releases up to 3.8 do not have. DynamicVoters implements them; it is
// compiled with later releases only.
package org.apache.kafka.raft;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.serialization.RecordSerde;

import java.nio.ByteBuffer;
import java.util.Collection;
import java.util.Map;

interface VoterSets {
    /** The implementation; null for releases without it. */
    VoterSets SUPPORT = load();

    /** The voter set of these voters, by the directories of their disks. */
    Object of(Map<Integer, Uuid> voters);

    /** Write the snapshot of a new quorum with these voters, as kafka-storage format --initial-controllers does. */
    void format(Object log, Time time, RecordSerde<Long> serde, Object voters);

    /** The voter set that a client uses. */
    Object held(KafkaRaftClient<?> client);

    /** The voter set in the value of a VotersRecord. */
    Object read(ByteBuffer value);

    Collection<Integer> ids(Object voters);

    private static VoterSets load() {
        Class<?> type = Release.HAS_DYNAMIC_VOTERS ? Release.find("org.apache.kafka.raft.DynamicVoters") : null;
        return type == null ? null : (VoterSets) Release.create(type, null);
    }
}
