// A request that a node sends to another, and the way back of its response.
package splitbrain.simulation;

import java.nio.ByteBuffer;

public interface Request {
    short apiKey();

    int correlation();

    /** Whether it is a pre-vote; null for other requests than Vote. */
    Boolean isPreVote();

    /** The request in a version; null if it says something that the version cannot. */
    ByteBuffer bytes(short version);

    void answered(ByteBuffer response, short version);

    /** The request has failed with an error of Kafka's. isSent: the connection had been made. */
    void failed(short errorCode, boolean isSent);
}
