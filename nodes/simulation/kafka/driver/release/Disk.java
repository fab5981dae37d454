// A node's disk: its log and its quorum state. It outlives the node's processes.
package org.apache.kafka.raft;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

interface Disk {
    record Content(ByteBuffer key, ByteBuffer value) { }

    record LoggedBatch(long firstOffset, long lastOffset, int epoch, boolean isControl, List<Content> records) { }

    /** Kafka's log, as its Raft client takes it; open() comes before. */
    Object log();

    QuorumStateStore store();

    /** A process begins to use the disk. What was written before is there, synced or not: a page cache outlives processes. */
    void open();

    /** The process that uses the disk, if there is one, ends; not cleanly: it was killed. */
    void close(boolean isClean);

    /** Without a process: what was written and not synced is lost, as after a power failure. */
    void loseUnsynced();

    /** Without a process. */
    void loseQuorumState();

    /** Of each segment in files, how many bytes are synced. */
    Map<Path, Long> synced();

    /** The disk is no longer used. */
    void discard();

    /** The offset at which the log begins. */
    long startOffset();

    /** The batches of the log as it is now. The same batch is the same object as long as it is in the log. */
    List<?> batches();

    /** What one of the batches has. */
    LoggedBatch read(Object batch);
}
