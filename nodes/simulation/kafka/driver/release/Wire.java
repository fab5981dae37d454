// Messages as bytes, and what Kafka answers in their place when a connection breaks.
package org.apache.kafka.raft;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.ApiVersionsResponseData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.message.VoteRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.Writable;

import java.lang.reflect.Method;
import java.nio.ByteBuffer;

final class Wire {
    private static final Method PRE_VOTE = preVoteAccessor();

    private Wire() { }

    /** The newest stable version of an API; -1 if the release does not have it. */
    static short latestVersion(short apiKey) {
        return ApiKeys.hasId(apiKey) ? ApiKeys.forId(apiKey).latestVersion(false) : -1;
    }

    /** Throws UnsupportedVersionException if the version cannot say what the message says. */
    static ByteBuffer encoded(ApiMessage data, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer bytes = ByteBuffer.allocate(data.size(cache, version));
        Writable writable = new ByteBufferAccessor(bytes);
        data.write(hasParts(data) ? Release.withParts(writable) : writable, cache, version);
        bytes.flip();
        return bytes;
    }

    private static boolean hasParts(ApiMessage data) {
        return data instanceof FetchSnapshotResponseData
            || data instanceof FetchResponseData response && Release.hasFileRecords(response);
    }

    static ApiMessage decoded(short apiKey, ByteBuffer bytes, boolean isRequest, short version) {
        ApiMessageType type = ApiMessageType.fromApiKey(apiKey);
        ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
        message.read(new ByteBufferAccessor(bytes), version);
        return message;
    }

    /** The response with an error. Throws IllegalArgumentException if the release has none for this API. */
    static ApiMessage error(short apiKey, short errorCode) {
        if (apiKey == ApiKeys.API_VERSIONS.id) return new ApiVersionsResponseData().setErrorCode(errorCode);
        return RaftUtil.errorResponse(ApiKeys.forId(apiKey), Errors.forCode(errorCode));
    }

    /** The answer to ApiVersions, which a process's socket server gives and not the Raft client. */
    static ApiMessage apiVersions() {
        var features = new ApiVersionsResponseData.SupportedFeatureKeyCollection();
        if (Release.HAS_DYNAMIC_VOTERS) features.add(new ApiVersionsResponseData.SupportedFeatureKey()
            .setName("kraft.version").setMinVersion((short) 0).setMaxVersion((short) 1));
        return new ApiVersionsResponseData().setSupportedFeatures(features);
    }

    /** What a process sends. Of a FetchSnapshot response with a partition's error, whose records are null, it can send
     * only that the request failed (ControllerApis; docs/findings/snapshot-errors.md). */
    static ApiMessage sendable(ApiMessage data) {
        if (!(data instanceof FetchSnapshotResponseData snapshot)) return data;
        boolean isSendable = snapshot.topics().stream().flatMap(topic -> topic.partitions().stream())
            .allMatch(Release::hasRecords);
        return isSendable ? data : new FetchSnapshotResponseData().setErrorCode(Errors.UNKNOWN_SERVER_ERROR.code());
    }

    private static Method preVoteAccessor() {
        for (var method : VoteRequestData.PartitionData.class.getDeclaredMethods())
            if (method.getName().equals("preVote")) return method;
        return null;
    }

    /** Whether a Vote is a pre-vote; null for other requests, and false in releases without Pre-Vote. */
    static Boolean isPreVote(ApiMessage data) {
        if (!(data instanceof VoteRequestData vote)) return null;
        if (PRE_VOTE == null) return false;
        try {
            return (Boolean) PRE_VOTE.invoke(vote.topics().get(0).partitions().get(0));
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
