// A node as the simulation knows it: a process that can be started and ended, with a disk and connections. Its code is
// that of one Kafka release, loaded by a class loader of its own, so messages pass as bytes.
package splitbrain.simulation;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.function.Consumer;

public interface Node {
    int id();

    // ---------------------------------------------------------------- the process and its disk

    void start();

    void kill();

    /** Begin a graceful shutdown. */
    void stop();

    void pause();

    void resume();

    void loseUnsynced();

    void loseDisk();

    void loseQuorumState();

    /** What remains once the process has ended. */
    Remains remains();

    /** Forget everything; no event may reach the node after that. */
    void close();

    boolean isUp();

    boolean isExecuting();

    /** A number that changes whenever the process starts or ends. */
    int incarnation();

    /** Let the node execute an action and what follows from it; a paused node executes it when it goes on. */
    void run(Runnable action);

    // ---------------------------------------------------------------- messages

    int requestTimeoutMs();

    /** The newest stable version of an API that the node's release has; negative if it has none. */
    short latestVersion(short apiKey);

    /** A request of a peer; respond gets the response, in the same version. */
    void receive(short apiKey, short version, ByteBuffer request, Consumer<ByteBuffer> respond);

    // ---------------------------------------------------------------- clients

    /** Execute the part of a client's call that this node serves. */
    void serve(long call, Runnable action);

    void write(long call, long value);

    void read(long call);

    /** A client's request that the Raft client answers itself. */
    void request(long call, short apiKey, short version, ByteBuffer bytes);

    // ---------------------------------------------------------------- what is seen from outside

    /** The epoch in which the node leads, as it would say now; -1 if it does not lead or does not execute. */
    int ledEpoch();

    /** Whether the node leads and has committed a record of its epoch. */
    boolean hasCommittedAsLeader();

    long endOffset();

    /** Put the status if it has changed since the last call; null in its place if the node does not execute. */
    void putChangedStatus(ObjectNode statuses);

    /** Each batch as [first offset, epoch, whether it is a control batch, [[key, value], ...]]; keys and values in base64. */
    ArrayNode logContents();
}
