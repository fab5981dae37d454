"""Carries out the commands of the controller's transcripts, and prints records and responses.

    brokers 4                                    brokers 1 to 4 register, and are unfenced; prints nothing
    topic t 4,3,2,1 5,1 min.insync.replicas=2    creates a topic with these replicas
    register 3 [clean] [again]                   broker 3 starts anew, clean: after a controlled shutdown; again: it is
                                                 the same process
    heartbeat 3 [fence] [shutdown] [behind]      … it wants to be fenced, to shut down, or lags behind the metadata
    silent 3 4                                   they send no heartbeats, until they register
    advance 9000                                 time passes; the other brokers send heartbeats every 500 ms
    isr t-0 3 2,1 [epoch=1] [version=4] [recovering] [broker=0]   broker 3 wants the ISR to be 2,1
    elect preferred|unclean t-0 t-1 | elect designated t-0=2 | elect preferred all
    reassign t-0=3,4,5 | reassign t-0=cancel
    create … | delete t | unregister 3 | producer-ids 3
    config t unclean.leader.election.enable=true min.insync.replicas=    changes configs of a topic; deletes the last
    log 3 2:90 | log 3 none                               broker 3 answers its oldest question: the epoch of its last
                                                          record and the end of its log, or nothing
    resign                                                another node becomes the active controller
    state t-0 | state 3                                   the partition, or the broker
    quietly COMMAND                                       prints nothing

A record begins with `+`, a question to a broker with `?`. Contains no assertions; the files in testdata have what is
expected.
"""

from __future__ import annotations

import random
import uuid
from typing import Any

from nodes.reference.core.controller import messages
from nodes.reference.core.controller.changes import Election
from nodes.reference.core.controller.controller import Controller, Decision
from nodes.reference.core.controller.settings import ControllerSettings
from nodes.reference.core.records.entities import (
    KEPT,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from nodes.reference.core.records.image import Image, Partition, ResourceType
from nodes.reference.core.records.metadata import decode, encode

HEARTBEAT_MS = 500


class ControllerTranscript:
    """A controller, its brokers, and the time."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._settings = ControllerSettings("test")
        self._random = random.Random(1)
        self._committed = Image()  # what every node has
        self._offset = 0
        self._controller = self._begin()
        self._heard: set[int] = set()  # the brokers that send heartbeats
        self._incarnations: dict[int, int] = {}
        self._questions: list[messages.LogQuestion] = []
        self._lines: list[str] = []

    def run(self, block: str) -> str:
        """Carry out the commands, one a line, and return what they printed."""
        self._lines = []
        for line in filter(None, map(str.strip, block.splitlines())):
            verb, *words = line.split()
            getattr(self, f"_{verb.replace('-', '_')}")(*words)
        return "".join(f"{line}\n" for line in self._lines) or "(nothing)\n"

    def _begin(self) -> Controller:
        return Controller(self._committed.copy(), self._settings, self._random.randrange, self.now_ms)

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _quietly(self, verb: str, *words: str) -> None:
        before = len(self._lines)
        getattr(self, f"_{verb.replace('-', '_')}")(*words)
        del self._lines[before:]

    def _switches(self, *words: str) -> None:
        given = dict(word.split("=") for word in words)
        self._settings = ControllerSettings("test", **{name: _value(text) for name, text in given.items()})
        self._controller = self._begin()

    def _brokers(self, count: str) -> None:
        for node in range(1, int(count) + 1):
            self._quietly("register", str(node))
            self._quietly("heartbeat", str(node))

    def _topic(self, name: str, *words: str) -> None:
        configs = dict(word.split("=") for word in words if "=" in word)
        replicas = [_nodes(word) for word in words if "=" not in word]
        topic = messages.NewTopic(name, assignments=dict(enumerate(replicas)), configs=configs)
        self._ask(messages.CreateTopics((topic,)))

    def _create(self, name: str, partitions: str, factor: str) -> None:
        self._ask(messages.CreateTopics((messages.NewTopic(name, int(partitions), int(factor)),)))

    def _partitions(self, name: str, count: str, *words: str) -> None:
        """partitions TOPIC COUNT [REPLICAS...]: with the replicas of each new one, or placed."""
        more = messages.MorePartitions(name, int(count), tuple(map(_nodes, words)) or None)
        self._ask(messages.CreatePartitions((more,)))

    def _delete(self, *names: str) -> None:
        self._ask(messages.DeleteTopics(names))

    def _register(self, node: str, *words: str) -> None:
        broker, before = int(node), self._controller.image.brokers.get(int(node))
        number = self._incarnations.get(broker, 0) + ("again" not in words)
        incarnation = uuid.UUID(int=broker << 64 | number)
        previous = before.epoch if before and "clean" in words else -1
        cluster = next((word.removeprefix("cluster=") for word in words if "=" in word), "test")
        self._heard.add(broker)
        self._ask(messages.RegisterBroker(broker, cluster, incarnation, previous_epoch=previous))
        registered = self._controller.image.brokers.get(broker)
        if registered is not None and registered.incarnation == incarnation:
            self._incarnations[broker] = number

    def _heartbeat(self, node: str, *words: str) -> None:
        broker = self._controller.image.brokers.get(int(node))
        epoch = broker.epoch if broker and "stale" not in words else -1
        offset = -1 if "behind" in words else self._offset
        self._ask(messages.Heartbeat(int(node), epoch, offset, "fence" in words, "shutdown" in words))

    def _silent(self, *nodes: str) -> None:
        self._heard -= set(map(int, nodes))

    def _advance(self, duration_ms: str) -> None:
        end_ms = self.now_ms + int(duration_ms)
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + HEARTBEAT_MS, end_ms)
            for node in sorted(self._heard & self._controller.image.brokers.keys()):
                self._quietly("heartbeat", str(node))
            decision = self._controller.expire(self._offset, self.now_ms)
            if decision.records or decision.questions:
                self._say(f"{self.now_ms} ms")
            self._carry_out(decision)

    def _isr(self, where: str, leader: str, isr: str, *words: str) -> None:
        given = dict(word.split("=") for word in words if "=" in word)
        partition, broker = self._partition(where), self._controller.image.brokers[int(leader)]
        change = messages.IsrChange(
            partition.topic_id,
            partition.index,
            int(given.get("epoch", partition.leader_epoch)),
            int(given.get("version", partition.partition_epoch)),
            tuple((node, int(given.get("broker", -1))) for node in _nodes(isr)),
            has_recovered="recovering" not in words,
        )
        self._ask(messages.AlterPartition(broker.broker_id, broker.epoch, (change,)))

    def _elect(self, how: str, *words: str) -> None:
        election = Election(how)
        if words == ("all",):
            self._ask(messages.ElectLeaders(election, None))
            return
        where = {_where(word.split("=")[0]): word.partition("=")[2] for word in words}
        designated = {key: int(node) for key, node in where.items()} if election is Election.DESIGNATED else None
        self._ask(messages.ElectLeaders(election, list(where), designated))

    def _reassign(self, *words: str) -> None:
        pairs = (word.split("=") for word in words)
        targets = {_where(key): None if text == "cancel" else _nodes(text) for key, text in pairs}
        self._ask(messages.Reassign(targets))

    def _unregister(self, node: str) -> None:
        self._ask(messages.UnregisterBroker(int(node)))

    def _producer_ids(self, node: str) -> None:
        epoch = self._controller.image.brokers[int(node)].epoch
        self._ask(messages.AllocateProducerIds(int(node), epoch))

    def _config(self, topic: str, *words: str) -> None:
        pairs = (word.split("=") for word in words)
        changes = (messages.ConfigChange(ResourceType.TOPIC, topic, name, value or None) for name, value in pairs)
        self._ask(messages.AlterConfigs(tuple(changes)))

    def _log(self, node: str, end: str) -> None:
        question = next(each for each in self._questions if each.broker_id == int(node))
        self._questions.remove(question)
        log_end = None if end == "none" else messages.LogEnd(*map(int, end.split(":")))
        ends = {} if log_end is None else dict.fromkeys(question.partitions, log_end)
        self._carry_out(self._controller.reported(question, ends, self._offset, self.now_ms))

    def _resign(self) -> None:
        self._controller = self._begin()

    def _state(self, what: str) -> None:
        if what.isdigit():
            broker = self._controller.image.brokers[int(what)]
            stopping = ", shutting down" if broker.is_stopping else ""
            self._say(f"broker {what}: {'fenced' if broker.is_fenced else 'unfenced'}{stopping}")
            return
        self._say(f"{what}: {show_partition(self._partition(what))}")

    def _partition(self, where: str) -> Partition:
        partition = self._controller.image.partition(*_where(where))
        assert partition is not None, f"{where}: expected a partition"
        return partition

    def respond(self, request: messages.ControllerRequest) -> Any:
        """The response to a request that no command can express; its records are committed."""
        decision = self._controller.handle(request, self._offset, self.now_ms)
        self._carry_out(decision)
        return decision.response

    def _ask(self, request: messages.ControllerRequest) -> None:
        self.respond(request)

    def _carry_out(self, decision: Decision) -> None:
        """Commit the records at once, by the way of their bytes."""
        for record in decision.records:
            self._say(f"+ {show_record(record, self._committed)}")
            read = decode(encode(record))
            assert read is not None, "a record that was encoded can be decoded"
            self._committed.apply(read)
        for question in decision.questions:
            partitions = ", ".join(f"{_name(self._committed, topic)}-{index}" for topic, index in question.partitions)
            self._say(f"? broker {question.broker_id}: {partitions}")
            self._questions.append(question)
        self._offset += len(decision.records)
        if decision.response is not None:
            for line in show_response(decision.response, self._committed):
                self._say(line)


def show_partition(partition: Partition) -> str:
    """E.g. `leader 3 in epoch 1, isr 3,2, elr 1, replicas 3,2,1`."""
    parts = [f"leader {_leader(partition.leader)} in epoch {partition.leader_epoch}", f"isr {_ids(partition.isr)}"]
    parts += [f"elr {_ids(partition.elr)}"] if partition.elr else []
    parts += [f"last known elr {_ids(partition.last_known_elr)}"] if partition.last_known_elr else []
    parts += [f"replicas {_ids(partition.replicas)}"]
    parts += [f"adding {_ids(partition.adding)}"] if partition.adding else []
    parts += [f"removing {_ids(partition.removing)}"] if partition.removing else []
    return ", ".join([*parts, *(["recovering"] if partition.is_recovering else [])])


def show_record(record: MetadataRecord, before: Image) -> str:
    """One record; topics by the names that they had before it."""
    match record:
        case TopicRecord(name=name):
            return f"Topic {name}"
        case RemoveTopicRecord(topic_id=topic_id):
            return f"RemoveTopic {_name(before, topic_id)}"
        case PartitionRecord():
            return f"Partition {record.partition_id} leader={record.leader} isr={_ids(record.isr)}"
        case PartitionChangeRecord():
            return f"PartitionChange {_name(before, record.topic_id)}-{record.partition_id}{_changes(record)}"
        case ConfigRecord():
            return f"Config {record.resource_name} {record.name}={record.value}"
        case ProducerIdsRecord():
            return f"ProducerIds next={record.next_producer_id}"
        case RegisterBrokerRecord():
            return f"RegisterBroker {record.broker_id}{' fenced' if record.fenced else ''}"
        case UnregisterBrokerRecord():
            return f"UnregisterBroker {record.broker_id}"
        case BrokerRegistrationChangeRecord():
            fenced = {0: "", 1: " fenced", -1: " unfenced"}[record.fenced]
            return f"Broker {record.broker_id}{fenced}{' shutting down' if record.in_controlled_shutdown else ''}"


def show_response(response: messages.ControllerResponse, image: Image) -> list[str]:
    """The lines of a response; errors by name."""
    match response:
        case messages.AlterPartitionResponse() if response.results:
            return [_result(each, image) for each in response.results]
        case (
            messages.ElectLeadersResponse()
            | messages.ReassignResponse()
            | messages.TopicsResponse()
            | messages.AlterConfigsResponse()
        ):
            results: Any = response.results
            return [_outcome(each) for each in results] or [_error(getattr(response, "error", None))]
        case messages.HeartbeatResponse():
            parts = [_error(response.error), "fenced" if response.is_fenced else "unfenced"]
            return [", ".join([*parts, *(["may shut down"] if response.should_shut_down else [])])]
        case messages.AllocateProducerIdsResponse():
            return [f"{_error(response.error)}, {response.count} ids from {response.first}"]
    return [_error(response.error)]


def _result(result: messages.PartitionResult, image: Image) -> str:
    where = f"{_name(image, result.topic_id)}-{result.index}"
    return f"{where}: {_error(result.error)}, leader {_leader(result.leader)}, isr {_ids(result.isr)}"


def _outcome(result: messages.ElectionResult | messages.TopicResult | messages.ResourceResult) -> str:
    match result:
        case messages.ElectionResult():
            where = f"{result.topic}-{result.index}"
        case messages.TopicResult():
            where = result.name
        case messages.ResourceResult():
            where = result.resource
    return f"{where}: {_error(result.error)}{f': {result.reason}' if result.reason else ''}"


def _changes(record: PartitionChangeRecord) -> str:
    named = {
        "leader": "" if record.leader == KEPT else _leader(record.leader),
        "isr": record.isr,
        "elr": record.eligible_leader_replicas,
        "last-known-elr": record.last_known_elr,
        "replicas": record.replicas,
        "adding": record.adding_replicas,
        "removing": record.removing_replicas,
        "recovering": {-1: "", 0: "no", 1: "yes"}[record.leader_recovery_state],
    }
    texts = ((name, value if isinstance(value, str) else _ids(value)) for name, value in named.items())
    return "".join(f" {name}={text}" for name, text in texts if text)


def _name(image: Image, topic_id: uuid.UUID) -> str:
    topic = image.topic(topic_id)
    return topic.name if topic else "?"


def _error(error: Any) -> str:
    return "ok" if not error else str(error.name)


def _leader(node: int) -> str:
    return "none" if node < 0 else str(node)


def _ids(nodes: tuple[int, ...] | None) -> str:
    return "" if nodes is None else ",".join(map(str, nodes)) or "none"


def _nodes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def _where(text: str) -> tuple[str, int]:
    topic, _, index = text.rpartition("-")
    return topic, int(index)


def _value(text: str) -> Any:
    """A switch's value; min.insync.replicas of all topics is written min_isr=2."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text
