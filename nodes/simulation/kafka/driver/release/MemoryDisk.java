// A disk in memory: the log and the quorum state of the release's own tests.
package org.apache.kafka.raft;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

final class MemoryDisk implements Disk {
    private final MockLog log;
    private MockQuorumStateStore store = new MockQuorumStateStore();

    MemoryDisk(int node, TopicPartition partition, Uuid topic) {
        log = new MockLog(partition, topic, new CapturedLog(node, text -> { }));
    }

    @Override
    public MockLog log() {
        return log;
    }

    @Override
    public QuorumStateStore store() {
        return store;
    }

    @Override
    public void open() {
        log.flush(true);
        log.reopen();
    }

    @Override
    public void close(boolean isClean) { }

    @Override
    public void loseUnsynced() {
        log.reopen();
    }

    @Override
    public void loseQuorumState() {
        store = new MockQuorumStateStore();
    }

    @Override
    public Map<Path, Long> synced() {
        return Map.of();
    }

    @Override
    public void discard() { }

    @Override
    public long startOffset() {
        return log.startOffset();
    }

    @Override
    public List<MockLog.LogBatch> batches() {
        return Release.batches(log);
    }

    @Override
    public LoggedBatch read(Object batch) {
        MockLog.LogBatch own = (MockLog.LogBatch) batch;
        List<Content> records = new ArrayList<>();
        for (Object record : Release.records(own)) records.add(Release.content(record));
        return new LoggedBatch(own.firstOffset(), own.lastOffset(), Release.epoch(own), Release.isControl(own), records);
    }
}
