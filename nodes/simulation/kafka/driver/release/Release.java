// What differs between Kafka's releases at the edge of the Raft client, found by reflection, so that one source compiles
// with each of them.
//
// Constructors and methods are called with a pool of values: each parameter takes the first value that has its type and
// is not used yet. The parameter types of the constructors that are called so are distinct, so the result is unambiguous.
package org.apache.kafka.raft;

import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.feature.SupportedVersionRange;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.FetchSnapshotResponseData;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.Writable;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.snapshot.RawSnapshotWriter;
import org.apache.kafka.snapshot.SnapshotWriter;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;

final class Release {
    static final String HOST_PREFIX = "n";
    static final int PORT = 9093;
    static final ListenerName LISTENER = ListenerName.normalised("CONTROLLER");

    private static final Map<Class<?>, Class<?>> BOXES = new HashMap<>(Map.of(
        int.class, Integer.class, long.class, Long.class, short.class, Short.class, boolean.class, Boolean.class));
    private static final Map<Class<?>, Constructor<?>> CONSTRUCTORS = new HashMap<>();
    private static final Map<Class<?>, Creation> CREATIONS = new HashMap<>();
    private static final Map<String, Method> METHODS = new HashMap<>();

    private static final Field STATE = field(QuorumState.class, "state");
    private static final Field VOTER_STATES = field(LeaderState.class, "voterStates");
    private static final Field END_OFFSET = field(load("org.apache.kafka.raft.LeaderState$ReplicaState"), "endOffset");
    private static final Field BATCHES = field(MockLog.class, "batches");
    private static final Class<?> QUORUM_CONFIG = find("org.apache.kafka.raft.QuorumConfig");
    private static final Class<?> ENDPOINTS = find("org.apache.kafka.raft.Endpoints");
    private static final Class<?> EXTERNAL_METRICS = find("org.apache.kafka.raft.ExternalKRaftMetrics");
    // Up to 3.8 a quorum has the voters that are configured.
    static final boolean HAS_DYNAMIC_VOTERS = ENDPOINTS != null;

    private Release() { }

    // ---------------------------------------------------------------- calls

    /** A new instance by the constructor that has a parameter of a type, or by the first one if that is null. */
    static Object create(Class<?> type, Class<?> parameter, Object... pool) {
        try {
            Constructor<?> constructor = CONSTRUCTORS.computeIfAbsent(type, key -> accessible(Arrays
                .stream(key.getDeclaredConstructors())
                .filter(each -> parameter == null || List.of(each.getParameterTypes()).contains(parameter))
                .findFirst().orElseThrow(() -> new IllegalStateException("no constructor of " + key))));
            return constructor.newInstance(arguments(constructor.getParameterTypes(), pool));
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    // A constructor, and which value of the pool each of its parameters takes.
    private record Creation(Constructor<?> constructor, int[] places) { }

    /** As create by the first constructor, for a class that is always created from pools of the same types. */
    private static Object createOften(Class<?> type, Object... pool) {
        Creation creation = CREATIONS.get(type);
        if (creation == null) {
            Constructor<?> constructor = accessible(type.getDeclaredConstructors()[0]);
            creation = new Creation(constructor, places(constructor.getParameterTypes(), pool));
            CREATIONS.put(type, creation);
        }
        Object[] chosen = new Object[creation.places.length];
        for (int at = 0; at < chosen.length; at++) chosen[at] = pool[creation.places[at]];
        try {
            return creation.constructor.newInstance(chosen);
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    /** Call the method of this name that the object's class declares. */
    static Object call(Object target, String name, Object... pool) {
        Class<?> type = target instanceof Class<?> itself ? itself : target.getClass();
        try {
            Method method = METHODS.computeIfAbsent(type.getName() + "." + name, key -> declared(type, name));
            return method.invoke(target, arguments(method.getParameterTypes(), pool));
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    static Method declared(Class<?> type, String name) {
        return accessible(Arrays.stream(type.getDeclaredMethods())
            .filter(each -> each.getName().equals(name) && !each.isBridge())
            .findFirst().orElseThrow(() -> new IllegalStateException("no method " + name + " of " + type)));
    }

    private static Object[] arguments(Class<?>[] types, Object[] pool) {
        int[] places = places(types, pool);
        Object[] chosen = new Object[places.length];
        for (int at = 0; at < places.length; at++) chosen[at] = pool[places[at]];
        return chosen;
    }

    private static int[] places(Class<?>[] types, Object[] pool) {
        int[] places = new int[types.length];
        boolean[] isUsed = new boolean[pool.length];
        for (int at = 0; at < types.length; at++) {
            Class<?> type = BOXES.getOrDefault(types[at], types[at]);
            int found = 0;
            while (found < pool.length && (isUsed[found] || !type.isInstance(pool[found]))) found++;
            if (found == pool.length) throw new IllegalStateException("no value for a parameter of " + type);
            isUsed[found] = true;
            places[at] = found;
        }
        return places;
    }

    static Field field(Class<?> type, String name) {
        try {
            return accessible(type.getDeclaredField(name));
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    static Object get(Field field, Object of) {
        try {
            return field.get(of);
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    private static <A extends AccessibleObject> A accessible(A member) {
        member.setAccessible(true);
        return member;
    }

    static Class<?> find(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            return null;
        }
    }

    static Class<?> load(String name) {
        Class<?> found = find(name);
        if (found == null) throw new IllegalStateException("no class " + name);
        return found;
    }

    static RuntimeException unchecked(ReflectiveOperationException error) {
        Throwable cause = error instanceof InvocationTargetException target ? target.getCause() : error;
        if (cause instanceof Error fatal) throw fatal;
        return cause instanceof RuntimeException runtime ? runtime : new IllegalStateException(cause);
    }

    // ---------------------------------------------------------------- configuration

    /** The names of controller.quorum.* that this release reads, without the addresses of the voters. */
    static List<String> settingNames() {
        List<String> names = new ArrayList<>();
        ConfigDef definition = configDefinition();
        if (definition == null) {
            names.addAll(DEFAULTS.keySet());
        } else {
            for (String name : definition.names()) if (isSetting(definition, name)) names.add(name);
        }
        names.sort(null);
        return names;
    }

    private static boolean isSetting(ConfigDef definition, String name) {
        ConfigDef.Type type = definition.configKeys().get(name).type;
        return name.startsWith("controller.quorum.") && type != ConfigDef.Type.LIST;
    }

    // Up to 3.8 the definitions are part of the server; these are their defaults, in the constructor's order.
    private static final Map<String, Integer> DEFAULTS = new TreeMap<>(Map.of(
        "controller.quorum.request.timeout.ms", 2000, "controller.quorum.retry.backoff.ms", 20,
        "controller.quorum.election.timeout.ms", 1000, "controller.quorum.election.backoff.max.ms", 1000,
        "controller.quorum.fetch.timeout.ms", 2000, "controller.quorum.append.linger.ms", 25));

    private static ConfigDef configDefinition() {
        try {
            return QUORUM_CONFIG == null ? null : (ConfigDef) QUORUM_CONFIG.getField("CONFIG_DEF").get(null);
        } catch (NoSuchFieldException missing) {
            return null;
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    /** Kafka's configuration of the quorum with these properties. Throws ConfigException for an invalid value. */
    static Object config(Map<String, String> properties, Map<Integer, InetSocketAddress> voters) {
        try {
            ConfigDef definition = configDefinition();
            if (definition != null)
                return QUORUM_CONFIG.getConstructor(AbstractConfig.class)
                    .newInstance(new AbstractConfig(definition, properties, false));
            int[] numbers = List.of("request.timeout", "retry.backoff", "election.timeout", "election.backoff.max",
                "fetch.timeout", "append.linger").stream().mapToInt(name -> number(properties, name)).toArray();
            Object[] values = Arrays.stream(numbers).boxed().toArray();
            if (QUORUM_CONFIG != null)
                return accessible(constructorOf(QUORUM_CONFIG, 6)).newInstance(values);
            Class<?> type = load("org.apache.kafka.raft.RaftConfig");
            Class<?> address = load("org.apache.kafka.raft.RaftConfig$InetAddressSpec");
            Map<Integer, Object> addresses = new TreeMap<>();
            voters.forEach((id, socket) -> addresses.put(id, create(address, null, socket)));
            Object[] all = new Object[7];
            all[0] = addresses;
            System.arraycopy(values, 0, all, 1, 6);
            return accessible(constructorOf(type, 7)).newInstance(all);
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    private static int number(Map<String, String> properties, String name) {
        String key = "controller.quorum." + name + ".ms";
        String text = properties.get(key);
        return text == null ? DEFAULTS.get(key) : Integer.parseInt(text);
    }

    static Constructor<?> constructorOf(Class<?> type, int parameters) {
        return Arrays.stream(type.getDeclaredConstructors())
            .filter(each -> each.getParameterCount() == parameters).findFirst().orElseThrow();
    }

    static int requestTimeoutMs(Object config) {
        return (Integer) call(config, "requestTimeoutMs");
    }

    // ---------------------------------------------------------------- addresses

    static InetSocketAddress address(int node) {
        return InetSocketAddress.createUnresolved(HOST_PREFIX + node, PORT);
    }

    /** The listeners of a node; without any in releases that have none. */
    static Object endpoints(int node) {
        Map<ListenerName, InetSocketAddress> listeners = new HashMap<>();
        listeners.put(LISTENER, address(node));
        return ENDPOINTS == null ? Optional.empty() : call(ENDPOINTS, "fromInetSocketAddresses", listeners);
    }

    /** The levels of kraft.version that a node supports, in releases that have levels. */
    static Object supportedKRaftVersions() {
        return HAS_DYNAMIC_VOTERS ? new SupportedVersionRange((short) 0, (short) 1) : Optional.empty();
    }

    /** The node that a request goes to: by its host, because bootstrap servers have ids of their own. */
    static int destination(RaftRequest.Outbound request) {
        Object destination = destinationOf(request);
        if (destination instanceof Integer id) return id;
        String host = ((Node) destination).host();
        try {
            return host.startsWith(HOST_PREFIX) ? Integer.parseInt(host.substring(HOST_PREFIX.length())) : -1;
        } catch (NumberFormatException unknown) {
            return -1;
        }
    }

    private static final Method DESTINATION =
        declared(RaftRequest.Outbound.class, QUORUM_CONFIG == null ? "destinationId" : "destination");

    private static Object destinationOf(RaftRequest.Outbound request) {
        return invoke(DESTINATION, request);
    }

    /** The response to a request as the client receives it: from the destination as the request names it. */
    static RaftResponse.Inbound inbound(RaftRequest.Outbound request, Object data) {
        Object from = destinationOf(request);
        return (RaftResponse.Inbound) createOften(RaftResponse.Inbound.class, request.correlationId(), data, from);
    }

    static RaftRequest.Inbound inboundRequest(int correlation, short version, Object data, long nowMs) {
        return (RaftRequest.Inbound)
            createOften(RaftRequest.Inbound.class, LISTENER, correlation, version, data, nowMs);
    }

    static Object noMetrics() {
        return EXTERNAL_METRICS == null ? Optional.empty() : Proxy.newProxyInstance(
            EXTERNAL_METRICS.getClassLoader(), new Class<?>[] {EXTERNAL_METRICS}, (proxy, method, values) -> null);
    }

    // ---------------------------------------------------------------- what a client knows

    static EpochState state(QuorumState quorum) {
        return (EpochState) get(STATE, quorum);
    }

    /** The candidate that has the node's vote in its epoch; -1 for none. */
    static int voted(EpochState state) {
        ElectionState election = state.election();
        if (!election.hasVoted()) return -1;
        if (QUORUM_CONFIG == null) return (Integer) call(election, "votedId");
        return (Integer) call(call(election, "votedKey"), "id");
    }

    /** The log end offsets that a leader knows, by voter; -1 if it knows none yet. */
    static Map<Integer, Long> endOffsets(LeaderState<?> leader) {
        Map<Integer, Long> offsets = new TreeMap<>();
        ((Map<?, ?>) get(VOTER_STATES, leader)).forEach((id, replica) -> {
            Optional<?> end = (Optional<?>) get(END_OFFSET, replica);
            offsets.put((Integer) id, end.map(offset -> offsetOf(offset)).orElse(-1L));
        });
        return offsets;
    }

    private static final Field OFFSET = field(LogOffsetMetadata.class, "offset");

    static long offsetOf(Object metadata) {
        return (Long) get(OFFSET, metadata);
    }

    /** MockLog numbers all records of a JVM, and Kafka logs the numbers: count from the beginning in each simulation. */
    static void restartRecordNumbers() {
        ((AtomicLong) get(RECORD_NUMBERS, null)).set(0);
    }

    private static final Field RECORD_NUMBERS = field(MockLog.class, "ID_GENERATOR");
    private static final Field BATCH_EPOCH = field(MockLog.LogBatch.class, "epoch");
    private static final Field BATCH_IS_CONTROL = field(MockLog.LogBatch.class, "isControlBatch");
    private static final Field BATCH_ENTRIES = field(MockLog.LogBatch.class, "entries");
    private static final Field ENTRY_RECORD = field(MockLog.LogEntry.class, "record");
    private static final Method RECORD_KEY = declared(ENTRY_RECORD.getType(), "key");
    private static final Method RECORD_VALUE = declared(ENTRY_RECORD.getType(), "value");

    static int epoch(MockLog.LogBatch batch) {
        return (Integer) get(BATCH_EPOCH, batch);
    }

    static boolean isControl(MockLog.LogBatch batch) {
        return (Boolean) get(BATCH_IS_CONTROL, batch);
    }

    /** The records of a batch, whose type has another package in each release; content takes them. */
    static List<Object> records(MockLog.LogBatch batch) {
        List<Object> records = new ArrayList<>();
        for (Object entry : (List<?>) get(BATCH_ENTRIES, batch)) records.add(get(ENTRY_RECORD, entry));
        return records;
    }

    static Disk.Content content(Object record) {
        return new Disk.Content((ByteBuffer) invoke(RECORD_KEY, record), (ByteBuffer) invoke(RECORD_VALUE, record));
    }

    static Object invoke(Method method, Object target, Object... arguments) {
        try {
            return method.invoke(target, arguments);
        } catch (ReflectiveOperationException error) {
            throw unchecked(error);
        }
    }

    @SuppressWarnings("unchecked")
    static List<MockLog.LogBatch> batches(MockLog log) {
        return (List<MockLog.LogBatch>) get(BATCHES, log);
    }

    /** Append one value as the leader of an epoch. Throws NotLeaderException, BufferAllocationException. */
    static void append(KafkaRaftClient<Long> client, int epoch, long value) {
        if (HAS_DYNAMIC_VOTERS) {
            call(client, "prepareAppend", epoch, List.of(value));
            call(client, "schedulePreparedAppend");
        } else {
            call(client, "scheduleAppend", epoch, List.of(value));
        }
    }

    // Kafka's interface of a log.
    static final Class<?> LOG = MockLog.class.getInterfaces()[0];
    private static final Method LAST_EPOCH = declared(LOG, "lastFetchedEpoch");
    private static final Method DELETE_BEFORE_SNAPSHOT = declared(LOG, "deleteBeforeSnapshot");
    private static final Method NEW_SNAPSHOT = HAS_DYNAMIC_VOTERS ? declared(LOG, "createNewSnapshotUnchecked") : null;

    // The type of a snapshot's id has another package in each release.
    private static final Class<?> SNAPSHOT_ID =
        declared(KafkaRaftClient.class, "createSnapshot").getParameterTypes()[0];

    private static Object snapshotId(long endOffset, int epoch) {
        return createOften(SNAPSHOT_ID, endOffset, epoch);
    }

    /** A new snapshot of what is committed before an offset; none if there is one, or a later one. */
    @SuppressWarnings("unchecked")
    static Optional<SnapshotWriter<Long>> snapshot(KafkaRaftClient<Long> client, long endOffset, int epoch, long timeMs) {
        return (Optional<SnapshotWriter<Long>>) call(client, "createSnapshot", snapshotId(endOffset, epoch), timeMs);
    }

    /** The epoch of the log's last record. */
    static int lastEpoch(Object log) {
        return (int) invoke(LAST_EPOCH, log);
    }

    /** Delete what a snapshot covers, and earlier snapshots. */
    static void deleteBefore(Object log, long endOffset, int epoch) {
        invoke(DELETE_BEFORE_SNAPSHOT, log, snapshotId(endOffset, epoch));
    }

    /** A writer of a new snapshot, whatever is committed. */
    @SuppressWarnings("unchecked")
    static RawSnapshotWriter newSnapshot(Object log, Object id) {
        return ((Optional<RawSnapshotWriter>) invoke(NEW_SNAPSHOT, log, id)).orElseThrow();
    }

    /** Whether a part of a snapshot has its bytes; their type has another package in each release. */
    static boolean hasRecords(FetchSnapshotResponseData.PartitionSnapshot partition) {
        return call(partition, "unalignedRecords") != null;
    }

    /** Writes parts of a snapshot's file, too: before 3.9 a buffer takes none, because network threads send the file's. */
    static Writable withParts(Writable buffer) {
        return (Writable) Proxy.newProxyInstance(Release.class.getClassLoader(), new Class<?>[] {Writable.class},
            (proxy, method, arguments) -> {
                if (!method.getName().equals("writeRecords")) return method.invoke(buffer, arguments);
                buffer.writeByteBuffer(bytes(arguments[0]));
                return null;
            });
    }

    private static ByteBuffer bytes(Object records) {
        String type = records.getClass().getSimpleName();
        if (!IN_FILES.containsKey(type)) return (ByteBuffer) call(records, "buffer");
        FileChannel channel = (FileChannel) get(field(records.getClass(), "channel"), records);
        long position = ((Number) get(field(records.getClass(), IN_FILES.get(type)), records)).longValue();
        ByteBuffer bytes = ByteBuffer.allocate((Integer) call(records, "sizeInBytes"));
        try {
            Utils.readFullyOrFail(channel, bytes, position, type);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.flip();
    }

    // The types of records in a file, and the field that says where in the file they begin.
    private static final Map<String, String> IN_FILES = Map.of("FileRecords", "start", "UnalignedFileRecords", "position");

    /** Whether a response has records of a file, which a buffer does not take. */
    static boolean hasFileRecords(FetchResponseData response) {
        return response.responses().stream().flatMap(topic -> topic.partitions().stream())
            .map(partition -> call(partition, "records"))
            .anyMatch(records -> records != null && IN_FILES.containsKey(records.getClass().getSimpleName()));
    }

    @SuppressWarnings("unchecked")
    static KafkaRaftClient<Long> client(Object... pool) {
        return (KafkaRaftClient<Long>) create(KafkaRaftClient.class, java.util.Random.class, pool);
    }

    static void initialize(KafkaRaftClient<Long> client, Object... pool) {
        call(client, "initialize", pool);
    }

    static OptionalInt id(int node) {
        return OptionalInt.of(node);
    }
}
