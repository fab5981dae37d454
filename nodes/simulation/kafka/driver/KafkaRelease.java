// One Kafka release, whose classes a class loader of its own has loaded: what the simulation asks of it.
package splitbrain.simulation;

import java.util.List;
import java.util.Map;

public interface KafkaRelease {
    /** The implementation, compiled with each release. */
    String IMPLEMENTATION = "org.apache.kafka.raft.ReleaseSupport";

    /** A new simulation begins. */
    void begin();

    /** A node of this release with these properties: one with an empty disk, or that takes the place of the one of which
     * something remains. Throws Refused for an invalid value. */
    Node node(Simulation simulation, int id, Map<String, String> properties, Remains remains);

    /** Report lines of nodes' logs that begin so. */
    void capture(List<String> beginnings);

    boolean hasDynamicVoters();

    /** The names of controller.quorum.* that the release reads. */
    List<String> settingNames();

    /** The oldest and the newest stable version of each API, by its key. */
    Map<Short, short[]> versions();
}
