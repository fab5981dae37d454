// The log and the quorum state of Kafka's servers, in files, found by reflection as in Release: KafkaRaftLog from 4.3 on;
// KafkaMetadataLog before, which needs the server's jars.
package org.apache.kafka.raft;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;

import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

final class ServerLog {
    // What implements Release.LOG in a server.
    private static final Class<?> RAFT_LOG = Release.find("org.apache.kafka.raft.internals.KafkaRaftLog");
    private static final Class<?> METADATA_LOG = RAFT_LOG == null ? Release.find("kafka.raft.KafkaMetadataLog") : null;
    private static final Class<?> LOG_CONFIG = Release.find("org.apache.kafka.raft.MetadataLogConfig");
    private static final Field FETCHED_RECORDS = Release.field(LogFetchInfo.class, "records");
    private static final Class<?> RECORDS = FETCHED_RECORDS.getType();
    private static final Class<?> RECORD_BATCH = Release.load(RECORDS.getPackageName() + ".RecordBatch");
    private static final Class<?> RECORD = Release.load(RECORDS.getPackageName() + ".Record");
    private static final Method BATCHES_OF = Release.declared(RECORDS, "batches");
    private static final Method BASE_OFFSET = Release.declared(RECORD_BATCH, "baseOffset");
    private static final Method LAST_OFFSET = Release.declared(RECORD_BATCH, "lastOffset");
    private static final Method LEADER_EPOCH = Release.declared(RECORD_BATCH, "partitionLeaderEpoch");
    private static final Method IS_CONTROL_BATCH = Release.declared(RECORD_BATCH, "isControlBatch");
    private static final Method KEY = Release.declared(RECORD, "key");
    private static final Method VALUE = Release.declared(RECORD, "value");
    private static final int READ_BYTES = 1 << 20;
    static final String SEGMENT_BYTES = "internal.metadata.log.segment.bytes";
    static final String RETENTION_BYTES = "metadata.max.retention.bytes";
    static final int RETENTION_BYTES_DEFAULT = 100 << 20;
    private static final int WEEK_MS = 604_800_000;

    private ServerLog() { }

    /** Open the log of a server in a directory, which is recovered if it exists. */
    static Object open(
        TopicPartition partition, Uuid topic, File directory, Time time, Scheduler scheduler, Object config, int node
    ) {
        Class<?> type = RAFT_LOG == null ? METADATA_LOG : RAFT_LOG;
        if (type == null) throw new IllegalStateException("the class path has no log of a server");
        return Release.call(type, RAFT_LOG == null ? "apply" : "createLog", partition, topic, directory, time, scheduler,
            config, node);
    }

    /** The configuration of a log. Up to 4.0 it is a class of the broker's with these numbers, in this order. Throws
     * ConfigException for an invalid value. */
    static Object config(Map<String, String> properties, int node) {
        if (LOG_CONFIG != null)
            try {
                ConfigDef definition = (ConfigDef) LOG_CONFIG.getField("CONFIG_DEF").get(null);
                return LOG_CONFIG.getConstructor(AbstractConfig.class)
                    .newInstance(new AbstractConfig(definition, properties, false));
            } catch (ReflectiveOperationException error) {
                throw Release.unchecked(error);
            }
        int segmentBytes = (int) number(properties, SEGMENT_BYTES, 1 << 30);
        long retentionBytes = number(properties, RETENTION_BYTES, RETENTION_BYTES_DEFAULT);
        try {
            return Release.constructorOf(Release.load("kafka.raft.MetadataLogConfig"), 9).newInstance(segmentBytes,
                Math.min(segmentBytes, 8 << 20), (long) WEEK_MS, retentionBytes, (long) WEEK_MS, 8 << 20, 8 << 20, 60_000L,
                node);
        } catch (ReflectiveOperationException error) {
            throw Release.unchecked(error);
        }
    }

    /** A property's number. Throws ConfigException for another text. */
    static long number(Map<String, String> properties, String name, long otherwise) {
        String text = properties.get(name);
        try {
            return text == null ? otherwise : Long.parseLong(text);
        } catch (NumberFormatException error) {
            throw new ConfigException(name, text, "expected a whole number");
        }
    }

    /** The file of a server's quorum state. */
    static QuorumStateStore store(Path path) {
        Class<?> type = Release.find("org.apache.kafka.raft.FileQuorumStateStore");
        if (type == null) type = Release.load("org.apache.kafka.raft.FileBasedStateStore");
        return (QuorumStateStore) Release.create(type, null, path.toFile());
    }

    /** Close the files of a log as they are, as the end of its process does. */
    static void closeHandlers(Object log) {
        Release.call(Release.get(Release.field(log.getClass(), "log"), log), "closeHandlers");
    }

    static long startOffset(Object log) {
        return (Long) Release.call(log, "startOffset");
    }

    static long endOffset(Object log) {
        return Release.offsetOf(Release.call(log, "endOffset"));
    }

    /** Some batches of a log from an offset on, at which one begins. */
    static List<Disk.LoggedBatch> batchesFrom(Object log, long offset) {
        List<Disk.LoggedBatch> batches = new ArrayList<>();
        Object records = Release.get(FETCHED_RECORDS, Release.call(log, "read", offset, Isolation.UNCOMMITTED, READ_BYTES));
        for (Object batch : (Iterable<?>) Release.invoke(BATCHES_OF, records)) {
            List<Disk.Content> contents = new ArrayList<>();
            for (Object record : (Iterable<?>) batch)
                contents.add(new Disk.Content((ByteBuffer) Release.invoke(KEY, record), (ByteBuffer) Release.invoke(VALUE, record)));
            batches.add(new Disk.LoggedBatch((Long) Release.invoke(BASE_OFFSET, batch), (Long) Release.invoke(LAST_OFFSET, batch),
                (Integer) Release.invoke(LEADER_EPOCH, batch), (Boolean) Release.invoke(IS_CONTROL_BATCH, batch), contents));
        }
        return batches;
    }
}
