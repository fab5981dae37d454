// A request of the Raft client, as the network carries it.
package org.apache.kafka.raft;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import splitbrain.simulation.Request;

import java.nio.ByteBuffer;

final class SentRequest implements Request {
    private final SimulatedNode sender;
    private final RaftRequest.Outbound request;
    private final Boolean isPreVote;

    SentRequest(SimulatedNode sender, RaftRequest.Outbound request) {
        this.sender = sender;
        this.request = request;
        isPreVote = Wire.isPreVote(request.data());
    }

    @Override
    public short apiKey() {
        return request.data().apiKey();
    }

    @Override
    public int correlation() {
        return request.correlationId();
    }

    @Override
    public Boolean isPreVote() {
        return isPreVote;
    }

    @Override
    public ByteBuffer bytes(short version) {
        try {
            return Wire.encoded(request.data(), version);
        } catch (UnsupportedVersionException unsupported) {
            return null;
        }
    }

    @Override
    public void answered(ByteBuffer response, short version) {
        sender.handles(ApiKeys.forId(apiKey()).name + " response from node " + Release.destination(request));
        complete(Wire.decoded(apiKey(), response, false, version));
    }

    /** 3.7 has no error response for FetchSnapshot. The exception ends the process when the request was not yet sent
     * (InterBrokerSendThread); of one that was sent it is logged, and the request stays without a response (NetworkClient). */
    @Override
    public void failed(short errorCode, boolean isSent) {
        ApiMessage response;
        try {
            response = Wire.error(apiKey(), errorCode);
        } catch (IllegalArgumentException missing) {
            if (!isSent) sender.exit(missing);
            return;
        }
        complete(response);
    }

    private void complete(ApiMessage response) {
        request.completion.complete(Release.inbound(request, response));
    }
}
