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
    private record Entry(Object batch, long lastOffset, int epoch, long logHash, ByteBuffer voters) { }

    private final List<Entry> entries = new ArrayList<>();
    // Where the first entry begins, and what is known of the log before it.
    private long baseOffset;
    private long baseHash = EMPTY_HASH;
    private ByteBuffer baseVoters;
    // The entry of the log's first batch, as of the last update.
    private int front;

    /** Follow the log; returns whether it has changed. */
    boolean update(int node, Disk disk, Invariants invariants) {
        List<?> batches = disk.batches();
        boolean isRebased = align(node, disk, batches, invariants);
        int common = Math.min(entries.size() - front, batches.size());
        while (common > 0 && entries.get(front + common - 1).batch != batches.get(common - 1)) common--;
        if (front + common == entries.size() && common == batches.size()) return isRebased;
        entries.subList(front + common, entries.size()).clear();
        for (int at = common; at < batches.size(); at++) {
            Entry entry = follow(batches.get(at), disk);
            entries.add(entry);
            invariants.appended(node, entry.lastOffset, entry.epoch, entry.logHash);
        }
        return true;
    }

    /** Find the entry of the log's first batch; returns whether the log begins anew, with another snapshot. */
    private boolean align(int node, Disk disk, List<?> batches, Invariants invariants) {
        if (!batches.isEmpty() && front < entries.size() && entries.get(front).batch == batches.get(0)) return false;
        long start = batches.isEmpty() ? disk.startOffset() : disk.read(batches.get(0)).firstOffset();
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

    private Entry follow(Object batch, Disk disk) {
        Disk.LoggedBatch read = disk.read(batch);
        long logHash = mixed(mixed(hash(), read.firstOffset()), read.epoch() * 2L + (read.isControl() ? 1 : 0));
        ByteBuffer voters = voters();
        for (Disk.Content record : read.records()) {
            logHash = mixed(mixed(logHash, contentOf(record.key())), contentOf(record.value()));
            if (read.isControl() && VoterSets.SUPPORT != null && typeOf(record.key()) == VOTERS) voters = record.value();
        }
        return new Entry(batch, read.lastOffset(), read.epoch(), logHash, voters);
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
    static ArrayNode contents(Disk disk) {
        ArrayNode rows = Reports.JSON.createArrayNode();
        for (Object batch : disk.batches()) {
            Disk.LoggedBatch read = disk.read(batch);
            ArrayNode row = rows.addArray().add(read.firstOffset()).add(read.epoch()).add(read.isControl());
            ArrayNode records = row.addArray();
            for (Disk.Content record : read.records()) records.addArray().add(text(record.key())).add(text(record.value()));
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
