"""Plays commands on brokers A, B, C … with one partition, and prints everything that they do.

Nothing happens by itself: time passes and messages arrive only where a command says so.

    brokers 2 truncation=kip-101 mutant=NAME     settings of all brokers; min_isr is the topic's; B.truncation: of one
    log A 1:0-10 1:11-20 -:21-25                 what is on A's disk: batches as epoch:first-last; @100: where it starts
    high-watermark A 11                          … and the high watermark that is stored there
    start A B · crash A · crash A keeps=11       a crash keeps the log, or what was flushed up to that offset
    compact A 1 · lose-epochs A                  the records of an epoch go; the file of epochs is lost
    leads A epoch=3 isr=A,B [tell=A]             the metadata has this leader; all brokers, or these, learn it
    produce A 10 acks=all id=9 sequence=0        a client's batch of so many records
    read A 0 · offsets A latest · ask A 2        a consumer's Fetch, ListOffsets (or earliest), OffsetForLeaderEpoch
    deliver · deliver A->B · deliver Fetch       messages in flight and those that follow from them, until quiet
    drop · drop A->B                             messages in flight are lost, and what asked for them knows it
    controller                                   the controller decides on what a leader wants, and all learn it
    advance 500                                  time passes
    store A                                      A stores its high watermark
    state A B · compare A B                      the log, its epochs and high watermark; whether the records are equal
    quietly COMMAND                              prints nothing

Contains no assertions; test_transcripts compares the printed text with the files in testdata.
"""

from __future__ import annotations

import fnmatch
from typing import Any

from nodes.reference.core.partitions import events, messages
from nodes.reference.core.partitions.leading import ALL
from nodes.reference.core.partitions.questions import LargestEpoch
from nodes.wire.batches import Producer, Record, encode_batch
from tests.nodes.reference.partitions.lineages import entries
from tests.nodes.reference.partitions.transcript_text import letter, show_log, show_message, show_proposal
from tests.support.nodes.partition_simulation import PARTITION, Message, PartitionSimulation

_MESSAGES_MAX = 200


class PartitionTranscript:
    """The brokers of one story."""

    def __init__(self) -> None:
        self._simulation = PartitionSimulation(0)
        self._lines: list[str] = []

    def run(self, block: str) -> str:
        """Carry out the commands, one a line, and return what they printed."""
        self._lines = []
        for line in filter(None, map(str.strip, block.splitlines())):
            self._do(*line.split())
        return "".join(f"{line}\n" for line in self._lines) or "(nothing)\n"

    def _do(self, verb: str, *words: str) -> None:
        getattr(self, f"_{verb.replace('-', '_')}")(*words)

    def _say(self, line: str) -> None:
        self._lines.append(line)

    def _quietly(self, verb: str, *words: str) -> None:
        before = len(self._lines)
        self._do(verb, *words)
        del self._lines[before:]

    def _brokers(self, count: str, *words: str) -> None:
        given = _values(words)
        common = {key: value for key, value in given.items() if "." not in key}
        per_node: dict[int, dict[str, Any]] = {}
        for name, _, key in (each.partition(".") for each in given if "." in each):
            per_node.setdefault(_node(name), {})[key] = given[f"{name}.{key}"]
        self._simulation = PartitionSimulation(int(count), self._watch, per_node=per_node, **common)

    def _log(self, name: str, *batches: str) -> None:
        log = self._simulation.members[_node(name)].log
        for text in batches:
            if text.startswith("@"):
                log.truncate_fully_and_start_at(int(text[1:]))
                continue
            epoch, _, offsets = text.partition(":")
            first, last = map(int, offsets.split("-"))
            records = [Record(None, b"")] * (last - first + 1)
            log.append_as_follower(encode_batch(records, first, -1 if epoch == "-" else int(epoch), 0))
        log.flush()

    def _high_watermark(self, name: str, offset: str) -> None:
        self._simulation.members[_node(name)].stored_high_watermark = int(offset)

    def _store(self, name: str) -> None:
        self._high_watermark(name, str(self._simulation.high_watermark(_node(name))))

    def _start(self, *names: str) -> None:
        for name in names:
            self._simulation.start(_node(name))

    def _crash(self, name: str, *words: str) -> None:
        node = _node(name)
        self._simulation.crash(node)
        keeps = _values(words).get("keeps")
        if keeps is not None:
            self._simulation.members[node].log.truncate(keeps)

    def _compact(self, name: str, epoch: str) -> None:
        self._simulation.members[_node(name)].log.remove_batches_of(int(epoch))

    def _lose_epochs(self, name: str) -> None:
        self._simulation.members[_node(name)].log.lose_epochs()

    def _leads(self, name: str, *words: str) -> None:
        given, simulation = _values(words), self._simulation
        isr = tuple(_node(each) for each in given["isr"].split(",")) if "isr" in given else None
        leader = messages.NO_NODE if name == "nobody" else _node(name)
        while simulation.metadata.leader_epoch < given["epoch"]:
            simulation.elect(leader, isr)
        self._inform([_node(each) for each in given["tell"].split(",")] if "tell" in given else simulation.up)

    def _inform(self, nodes: list[int]) -> None:
        """Followers learn it first, so that the order of lines does not depend on who leads."""
        for node in sorted(nodes, key=lambda each: each == self._simulation.metadata.leader):
            self._act(node, lambda node=node: self._simulation.inform(node))  # type: ignore[misc]

    def _produce(self, name: str, count: str, *words: str) -> None:
        given, node = _values(words), _node(name)
        acks = {"all": ALL}.get(given.get("acks", 1), given.get("acks", 1))
        producer = Producer(given.get("id", -1), given.get("producer_epoch", -1), given.get("sequence", -1))
        batch = encode_batch([Record(None, b"")] * int(count), 0, -1, 0, producer=producer)
        request = messages.ProduceRequest(acks, given.get("timeout", 30_000), {PARTITION: batch})
        self._ask(node, request, f"produces {count} acks={given.get('acks', 1)}")

    def _read(self, name: str, offset: str, *words: str) -> None:
        wanted = messages.FetchPartition(int(offset), _values(words).get("epoch", -1), _values(words).get("last", -1))
        self._ask(_node(name), messages.FetchRequest(messages.NO_NODE, {PARTITION: wanted}, 0), f"reads {offset}")

    def _offsets(self, name: str, which: str) -> None:
        time = {"latest": messages.LATEST, "earliest": messages.EARLIEST}.get(which)
        question = messages.OffsetQuestion(int(which) if time is None else time)
        request = messages.OffsetsRequest(messages.NO_NODE, {PARTITION: question})
        self._ask(_node(name), request, f"asks for the {which} offset")

    def _ask_epoch(self, name: str, epoch: str) -> None:
        request = messages.EpochRequest(messages.NO_NODE, {PARTITION: messages.EpochQuestion(LargestEpoch(int(epoch)))})
        self._ask(_node(name), request, f"asks for the end of epoch {epoch}")

    def _ask(self, node: int | str, request: Any, text: str = "") -> None:
        if isinstance(node, str):
            self._ask_epoch(node, request)
            return
        self._say(f"client→{letter(node)} {text}")
        self._act(node, lambda: self._simulation.ask(node, request))

    def _deliver(self, *patterns: str) -> None:
        for _ in range(_MESSAGES_MAX):
            message = next((each for each in self._simulation.flight if _matches(each, patterns)), None)
            if message is None:
                return
            self._say(f"{letter(message.sender)}→{letter(message.receiver)} {show_message(message.payload)}")
            if self._simulation.members[message.receiver].broker is None:
                self._say(f"  {letter(message.receiver)} is down")
            self._act(message.receiver, lambda message=message: self._simulation.deliver(message))  # type: ignore[misc]
        raise AssertionError(f"more than {_MESSAGES_MAX} messages")

    def _drop(self, *patterns: str) -> None:
        for message in [each for each in self._simulation.flight if _matches(each, patterns)]:
            route = f"{letter(message.sender)}→{letter(message.receiver)}"
            self._say(f"{route} {show_message(message.payload)} is lost")
            asking = message.sender if message.is_request else message.receiver
            self._act(asking, lambda message=message: self._simulation.lose(message))  # type: ignore[misc]

    def _controller(self) -> None:
        while self._simulation.proposals:
            self._simulation.decide()
        self._say(f"controller: isr {','.join(map(letter, self._simulation.metadata.isr))}")
        self._inform(self._simulation.up)

    def _advance(self, duration_ms: str) -> None:
        end_ms = self._simulation.now_ms + int(duration_ms)
        while (due := self._simulation.next_due()) is not None and due[0] <= end_ms:
            before = len(self._lines)
            node, now_ms = due[1], max(due[0], self._simulation.now_ms)
            self._act(node, lambda now_ms=now_ms: self._simulation.advance(now_ms - self._simulation.now_ms))  # type: ignore[misc]
            if len(self._lines) > before:
                self._lines.insert(before, f"{now_ms} ms: {letter(node)}")
        self._simulation.now_ms = end_ms

    def _state(self, *names: str) -> None:
        for name in names:
            node = _node(name)
            member = self._simulation.members[node]
            self._say(f"{name}: {show_log(member.log)}")
            epochs = " ".join(f"{each.epoch}@{each.offset}" for each in member.log.epochs.starts) or "-"
            self._say(f"  epochs {epochs}, high watermark {self._simulation.high_watermark(node)}{self._role(node)}")

    def _role(self, node: int) -> str:
        broker = self._simulation.members[node].broker
        following = broker.following.get(PARTITION) if broker else None
        if following is None:
            return ""
        failure = f": {following.failure}" if following.failure else ""
        cost = f", {following.rounds} rounds, {following.question_bits} bits"
        return f", {following.phase.value}{failure}{cost}"

    def _compare(self, one: str, other: str) -> None:
        mine, yours = (
            {each.offset: each.epoch for each in entries(self._simulation.members[_node(name)].log)}
            for name in (one, other)
        )
        differ = sorted(offset for offset in mine.keys() | yours.keys() if mine.get(offset) != yours.get(offset))
        self._say(f"{one} and {other} have the same records" if not differ else f"they differ at {_ranges(differ)}")

    def _act(self, node: int, action: Any) -> None:
        """Carry out an action, and print how a broker's log and high watermark changed by it, before what it sent."""
        member = self._simulation.members[node]
        log, high_watermark, before = show_log(member.log), self._simulation.high_watermark(node), len(self._lines)
        action()
        changes = [f"  {letter(node)} has {show_log(member.log)}"] if show_log(member.log) != log else []
        if self._simulation.high_watermark(node) != high_watermark:
            changes.append(f"  {letter(node)} high watermark {self._simulation.high_watermark(node)}")
        self._lines[before:before] = changes

    def _watch(self, node: int, effect: events.Effect) -> None:
        name = letter(node)
        match effect:
            case events.Send(peer, _, request):
                self._say(f"  {name} asks {letter(peer)} {show_message(request)}")
            case events.Reply(_, response):
                self._say(f"  {name} replies {show_message(response)}")
            case events.AskController(_, request):
                self._say(f"  {name} asks the controller {show_proposal(request)}")
            case events.Disconnect():
                self._say(f"  {name} closes the connection")
            case events.StoreHighWatermarks(high_watermarks):
                self._say(f"  {name} stores the high watermark {high_watermarks[PARTITION]}")
            case events.Note(text) if "Unexpected" in text or "did not answer" in text:
                self._say(f"  {name}: {text}")


def _matches(message: Message, patterns: tuple[str, ...]) -> bool:
    link = f"{letter(message.sender)}->{letter(message.receiver)}"
    name = type(message.payload).__name__
    return all(fnmatch.fnmatch(link, each) if "->" in each else name.startswith(each) for each in patterns)


def _ranges(offsets: list[int]) -> str:
    """`3 to 5, 9`."""
    groups: list[list[int]] = []
    for offset in offsets:
        if groups and groups[-1][-1] + 1 == offset:
            groups[-1].append(offset)
        else:
            groups.append([offset])
    return ", ".join(f"{each[0]} to {each[-1]}" if len(each) > 1 else str(each[0]) for each in groups)


def _node(name: str) -> int:
    return ord(name) - ord("A") + 1


def _values(words: tuple[str, ...]) -> dict[str, Any]:
    pairs = (word.partition("=") for word in words)
    return {key: _value(value) for key, _, value in pairs}


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text
