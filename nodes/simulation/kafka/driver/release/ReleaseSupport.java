// What the simulation asks of the release that this was compiled with.
package org.apache.kafka.raft;

import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.protocol.ApiKeys;
import splitbrain.simulation.KafkaRelease;
import splitbrain.simulation.Node;
import splitbrain.simulation.Refused;
import splitbrain.simulation.Remains;
import splitbrain.simulation.Simulation;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public final class ReleaseSupport implements KafkaRelease {
    @Override
    public void begin() {
        Release.restartRecordNumbers();
    }

    @Override
    public Node node(Simulation simulation, int id, Map<String, String> properties, Remains remains) {
        try {
            return new SimulatedNode(simulation, id, properties, remains);
        } catch (ConfigException refused) {
            throw new Refused(refused.getMessage());
        }
    }

    @Override
    public void capture(List<String> beginnings) {
        CapturedLog.capture(beginnings);
    }

    @Override
    public boolean hasDynamicVoters() {
        return Release.HAS_DYNAMIC_VOTERS;
    }

    @Override
    public List<String> settingNames() {
        return Release.settingNames();
    }

    @Override
    public Map<Short, short[]> versions() {
        Map<Short, short[]> versions = new TreeMap<>();
        for (ApiKeys api : ApiKeys.values())
            if (api.latestVersion(false) >= api.oldestVersion())
                versions.put(api.id, new short[] {api.oldestVersion(), api.latestVersion(false)});
        return versions;
    }
}
