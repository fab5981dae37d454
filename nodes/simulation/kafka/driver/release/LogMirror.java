// A node's log as it is now, batch by batch, each with a hash of the log up to it and with the voters that it makes.
//
// A log changes at its end, so the mirror is brought up to date by comparing from the end of the common part: the cost is
// that of the change. Batches that a snapshot covers stay here when the log no longer has them. A log that begins with
// another node's snapshot begins with the hash, and with the voters, of what was committed where the snapshot ends.
package org.apache.kafka.raft;

import com.fasterxml.jackson.databind.node.ArrayNode;
import splitbrain.simulation.Invariants;
import splitbrain.simulation.Reports;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

final class LogMirror {
    // The type of a control record that names the voters (KIP-853), in the second two bytes of its key.
    private static final short VOTERS = 6;
    private static final long EMPTY_HASH = 17;

    // The hash of the log up to the batch, and the VotersRecord that counts there: null if there is none. It is kept as
    // bytes, because nodes of other releases read it, too.
    private record Entry(MockLog.LogBatch batch, long lastOffset, int epoch, long logHash, ByteBuffer voters) { }

    private final List<Entry> entries = new ArrayList<>();
    // Where the first entry begins, and what is known of the log before it.
    private long baseOffset;
    private long baseHash = EMPTY_HASH;
    private ByteBuffer baseVoters;
    // The entry of the log's first batch, as of the last update.
    private int front;

    /** Follow the log; returns whether it has changed. */
    boolean update(int node, MockLog log, Invariants invariants) {
        List<MockLog.LogBatch> batches = Release.batches(log);
        boolean isRebased = align(node, log, batches, invariants);
        int common = Math.min(entries.size() - front, batches.size());
        while (common > 0 && entries.get(front + common - 1).batch != batches.get(common - 1)) common--;
        if (front + common == entries.size() && common == batches.size()) return isRebased;
        entries.subList(front + common, entries.size()).clear();
        for (int at = common; at < batches.size(); at++) {
            Entry entry = follow(batches.get(at));
            entries.add(entry);
            invariants.appended(node, entry.lastOffset, entry.epoch, entry.logHash);
        }
        return true;
    }

    /** Find the entry of the log's first batch; returns whether the log begins anew, with another snapshot. */
    private boolean align(int node, MockLog log, List<MockLog.LogBatch> batches, Invariants invariants) {
        if (!batches.isEmpty() && front < entries.size() && entries.get(front).batch == batches.get(0)) return false;
        long start = batches.isEmpty() ? log.startOffset() : batches.get(0).firstOffset();
        front = 0;
        while (front < entries.size() && entries.get(front).lastOffset < start) front++;
        long offset = front == 0 ? baseOffset : entries.get(front - 1).lastOffset + 1;
        Invariants.Committed end = invariants.committedBefore(start);
        if (offset == start && (end == null || end.logHash() == (front == 0 ? baseHash : entries.get(front - 1).logHash)))
            return false;
        if (start > 0) invariants.snapshotEnd(node, start);
        entries.clear();
        front = 0;
        baseOffset = start;
        baseHash = end == null ? EMPTY_HASH : end.logHash();
        baseVoters = end == null ? null : end.voters();
        return true;
    }

    private Entry follow(MockLog.LogBatch batch) {
        int epoch = Release.epoch(batch);
        boolean isControl = Release.isControl(batch);
        long logHash = mixed(mixed(hash(), batch.firstOffset()), epoch * 2L + (isControl ? 1 : 0));
        ByteBuffer voters = voters();
        for (Object record : Release.records(batch)) {
            ByteBuffer key = Release.key(record);
            ByteBuffer value = Release.value(record);
            logHash = mixed(mixed(logHash, contentOf(key)), contentOf(value));
            if (isControl && VoterSets.SUPPORT != null && typeOf(key) == VOTERS) voters = value;
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

    private Entry last() {
        return entries.get(entries.size() - 1);
    }

    private long hash() {
        return entries.isEmpty() ? baseHash : last().logHash;
    }

    /** The first offset that is known here batch by batch. */
    long startOffset() {
        return baseOffset;
    }

    /** The offset after the last record; 0 of an empty log. */
    long endOffset() {
        return entries.isEmpty() ? baseOffset : last().lastOffset + 1;
    }

    /** Report what is committed between two high watermarks. */
    void commit(int node, int epoch, long from, long to, Invariants invariants) {
        int at = entries.size();
        while (at > 0 && entries.get(at - 1).lastOffset >= from) at--;
        for (; at < entries.size() && entries.get(at).lastOffset < to; at++) {
            Entry entry = entries.get(at);
            invariants.committed(node, epoch, entry.lastOffset, entry.logHash, entry.voters);
        }
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
        return content == null ? null : Reports.text(content);
    }

    /** The latest VotersRecord of the log, or of what precedes the snapshot that it begins with; null if there is none. */
    ByteBuffer voters() {
        return entries.isEmpty() ? baseVoters : last().voters;
    }
}
