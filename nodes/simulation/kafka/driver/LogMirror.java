// A node's log as it is now, batch by batch, each with a hash of the log up to it and with the voter set that it names.
//
// A log changes at its end only. The mirror is brought up to date by comparing from the end of the common part, so the
// cost is that of the change. Snapshots beyond the one of a new quorum are not simulated.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

final class LogMirror {
    // The type of a control record that names the voters (KIP-853), in the second two bytes of its key.
    private static final short VOTERS = 6;

    private record Entry(MockLog.LogBatch batch, long lastOffset, int epoch, long logHash, Object voters) { }

    private final List<Entry> entries = new ArrayList<>();

    /** Follow the log; returns whether it has changed. */
    boolean update(int node, MockLog log, Invariants invariants) {
        List<MockLog.LogBatch> batches = Release.batches(log);
        int common = Math.min(entries.size(), batches.size());
        while (common > 0 && entries.get(common - 1).batch != batches.get(common - 1)) common--;
        if (common == entries.size() && common == batches.size()) return false;
        entries.subList(common, entries.size()).clear();
        for (int at = common; at < batches.size(); at++) {
            Entry entry = follow(at == 0 ? 17 : entries.get(at - 1).logHash, batches.get(at));
            entries.add(entry);
            invariants.appended(node, entry.lastOffset, entry.epoch, entry.logHash);
        }
        return true;
    }

    private static Entry follow(long hash, MockLog.LogBatch batch) {
        int epoch = Release.epoch(batch);
        boolean isControl = Release.isControl(batch);
        long logHash = mixed(mixed(hash, batch.firstOffset()), epoch * 2L + (isControl ? 1 : 0));
        Object voters = null;
        for (Object record : Release.records(batch)) {
            ByteBuffer key = Release.key(record);
            ByteBuffer value = Release.value(record);
            logHash = mixed(mixed(logHash, contentOf(key)), contentOf(value));
            if (isControl && VoterSets.SUPPORT != null && typeOf(key) == VOTERS) voters = VoterSets.SUPPORT.read(value);
        }
        return new Entry(batch, batch.lastOffset(), epoch, logHash, voters);
    }

    private static short typeOf(ByteBuffer key) {
        return key.getShort(key.position() + 2);
    }

    private static long contentOf(ByteBuffer content) {
        return content == null ? -1 : content.hashCode();
    }

    private static long mixed(long hash, long value) {
        long mixed = (hash ^ value) * 0x9E3779B97F4A7C15L;
        return mixed ^ mixed >>> 32;
    }

    /** The offset after the last record; 0 of an empty log. */
    long endOffset() {
        return entries.isEmpty() ? 0 : entries.get(entries.size() - 1).lastOffset + 1;
    }

    /** Report what is committed between two high watermarks. */
    void commit(int node, int epoch, long from, long to, Invariants invariants) {
        int at = entries.size();
        while (at > 0 && entries.get(at - 1).lastOffset >= from) at--;
        for (; at < entries.size() && entries.get(at).lastOffset < to; at++)
            invariants.committed(node, epoch, entries.get(at).lastOffset, entries.get(at).logHash);
    }

    /** The hash of the log up to the batch that ends with this offset; 0 if there is none. */
    long hashAt(long lastOffset) {
        for (int at = entries.size() - 1; at >= 0 && entries.get(at).lastOffset >= lastOffset; at--)
            if (entries.get(at).lastOffset == lastOffset) return entries.get(at).logHash;
        return 0;
    }

    /** Each batch as [first offset, epoch, whether it is a control batch, [[key, value], ...]]; keys and values in base64. */
    static ArrayNode contents(MockLog log) {
        ArrayNode rows = Reports.JSON.createArrayNode();
        for (MockLog.LogBatch batch : Release.batches(log)) {
            ArrayNode row = rows.addArray().add(batch.firstOffset()).add(Release.epoch(batch)).add(Release.isControl(batch));
            ArrayNode records = row.addArray();
            for (Object record : Release.records(batch))
                records.addArray().add(text(Release.key(record))).add(text(Release.value(record)));
        }
        return rows;
    }

    private static String text(ByteBuffer content) {
        if (content == null) return null;
        byte[] bytes = new byte[content.remaining()];
        content.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** The latest voter set that the log names; null if it names none. */
    Object voters() {
        for (int at = entries.size() - 1; at >= 0; at--) if (entries.get(at).voters != null) return entries.get(at).voters;
        return null;
    }
}
