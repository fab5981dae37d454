"""Brokers of the reference system beside real Kafka's: writes, and a restart from a large log, on the same machine.

Each system runs as three combined nodes with default settings in a sandbox, one system after the other, in turns. A
topic has three replicas and min.insync.replicas=2. One librdkafka producer writes with acks=all; a write is done when
it is acknowledged. Neither system flushes a write to disk before it acknowledges it, which is Kafka's default.

    one record each, linger 0       a batch has one record; five requests are in flight
    one record at a time            the next record waits for the acknowledgement
    batches                         records of 100 bytes, linger 5 ms

The restart: a node that leads a partition with the large log, and no other replica, is killed. Once its session has
ended it starts again; the time ends when it returns the log's end to a client. Memory is the process's peak.

    .venv/bin/python benchmarks/bench_brokers.py [--log-mb 1000] [--rounds 3] [--system reference]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tabulate import tabulate

from harness.model.layouts import CLIENT_PORT
from harness.planning.plan import Plan
from harness.systems.cluster import Cluster
from nodes.hosts.netns.hosts import NamespaceHosts
from nodes.hosts.processes import ChildProcesses
from nodes.hosts.sandbox import Privilege, enclose
from nodes.kafka.artifacts import Library

SYSTEMS = ("kafka", "reference")
NODES, RESTARTED = 3, 3
WAIT_SECONDS = 120
SWITCHES = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
RECORD = b"x" * 100
LARGE_RECORD = os.urandom(10_000)

Figures = dict[str, float]


class Clients:
    """Clients of a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin = AdminClient(self._settings)

    def create(self, topic: str, replicas: list[list[int]], min_isr: int) -> None:
        """Create a topic, and wait until its partitions have leaders."""
        config = {"min.insync.replicas": str(min_isr)}
        new = NewTopic(topic, len(replicas), replica_assignment=replicas, config=config)
        self.admin.create_topics([new])[topic].result()
        wait_until(lambda: self.leader(topic) is not None)

    def brokers(self) -> set[int]:
        """The live brokers."""
        with suppress(KafkaException):
            return set(self.admin.list_topics(timeout=2).brokers)
        return set()

    def leader(self, topic: str) -> int | None:
        """The leader of partition 0, None if it has none."""
        with suppress(KafkaException):
            metadata = self.admin.list_topics(topic, timeout=2).topics[topic]
            if 0 in metadata.partitions and metadata.partitions[0].leader >= 0:
                return int(metadata.partitions[0].leader)
        return None

    def end(self, topic: str) -> int | None:
        """The end of the log, as the leader says; None if it says nothing."""
        consumer = Consumer({**self._settings, "group.id": "none"})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=1)[1])
        except KafkaException:
            return None
        finally:
            consumer.close()

    def written_a_second(self, topic: str, count: int, value: bytes, **settings: object) -> float:
        """Acknowledged records per second of one producer, which hands them over as fast as its queue allows."""
        producer = Producer({**self._settings, "acks": "all", **settings})
        producer.produce(topic, value, partition=0)
        assert producer.flush(WAIT_SECONDS) == 0
        errors: list[object] = []
        began = time.perf_counter()
        for _ in range(count):
            while True:
                with suppress(BufferError):
                    producer.produce(
                        topic, value, partition=0, on_delivery=lambda error, _: error and errors.append(error)
                    )
                    break
                producer.poll(0.01)
            producer.poll(0)
        assert producer.flush(WAIT_SECONDS) == 0
        assert not errors, errors[0]
        return count / (time.perf_counter() - began)

    def one_at_a_time(self, topic: str, count: int) -> float:
        """Acknowledged records per second of a producer that waits for each."""
        producer = Producer({**self._settings, "acks": "all", "linger.ms": 0})
        began = 0.0
        for number in range(count + 1):
            began = time.perf_counter() if number == 1 else began  # the first one connects
            producer.produce(topic, RECORD, partition=0)
            assert producer.flush(WAIT_SECONDS) == 0
        return count / (time.perf_counter() - began)


def wait_until(holds: Callable[[], bool]) -> None:
    """Ask until this holds. Raises AssertionError after WAIT_SECONDS."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS} s"
        time.sleep(0.02)


def writes(clients: Clients, topic: str) -> Figures:
    """The figures of one round of writes."""
    clients.create(topic, [[1, 2, 3]], 2)
    single = {"linger.ms": 0, "batch.num.messages": 1}
    return {
        "one record each, linger 0 (records/s)": clients.written_a_second(topic, 10_000, RECORD, **single),
        "one record at a time (records/s)": clients.one_at_a_time(topic, 1_000),
        "batches (records/s)": clients.written_a_second(topic, 200_000, RECORD, **{"linger.ms": 5}),
    }


async def restart(clients: Clients, processes: ChildProcesses, log_bytes: int) -> Figures:
    """The figures of a restart from a log of this size."""
    count = log_bytes // len(LARGE_RECORD)
    clients.create("large", [[RESTARTED]], 1)
    await asyncio.to_thread(clients.written_a_second, "large", count, LARGE_RECORD, **{"linger.ms": 5})
    await processes.kill(RESTARTED)
    await asyncio.to_thread(wait_until, lambda: clients.leader("large") is None)
    began = time.perf_counter()
    await processes.start(RESTARTED)
    await asyncio.to_thread(wait_until, lambda: (clients.end("large") or 0) > count)
    seconds = time.perf_counter() - began
    return {"restart from the large log (s)": seconds, "its peak memory (MB)": peak_mb(processes.pid(RESTARTED))}


def peak_mb(pid: int) -> float:
    """The peak of the resident memory of a process."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None, f"the kernel says nothing of process {pid}"
    return int(match[1]) / 1000


async def measure(system: str, directory: Path, rounds: int, log_bytes: int) -> list[Figures]:
    """Inside the sandbox: the figures of each round, and of one restart."""
    plan = Plan(name="bench", seed=1, story=[], system=system, layout="combined", switches=SWITCHES, nodes=NODES)
    cluster = Cluster(plan)
    async with NamespaceHosts.up(directory, NODES) as hosts:
        views = hosts.views
        await asyncio.gather(*(cluster.prepare(hosts.host(node), views) for node in views))
        processes = ChildProcesses(hosts, cluster, lambda *_: None)
        clients = Clients(",".join(f"{view.address}:{CLIENT_PORT}" for view in views.values()))
        try:
            await asyncio.gather(*(processes.start(node) for node in views))
            await asyncio.to_thread(wait_until, lambda: clients.brokers() == set(views))
            found = [await asyncio.to_thread(writes, clients, f"t{number}") for number in range(rounds)]
            if log_bytes:
                found.append(await restart(clients, processes, log_bytes))
            return found
        finally:
            await processes.kill_all()


def measured(system: str, rounds: int, log_bytes: int) -> Figures:
    """The best of each figure of a system; memory and time of the restart are measured once.

    system: reference, or kafka:VERSION of a release that is installed, because the sandbox has no network.
    """
    with tempfile.TemporaryDirectory() as directory:
        inside = [sys.executable, __file__, "inside", system, directory, str(rounds), str(log_bytes)]
        shown = subprocess.run(enclose(inside, Privilege.detect()), stdout=subprocess.PIPE, check=True).stdout
    best: Figures = {}
    for figures in json.loads(shown):
        best |= {name: max(value, best.get(name, 0)) for name, value in figures.items()}
    return best


def installed(system: str) -> str:
    """The system with the version of Kafka's newest release, which is fetched if necessary."""
    if system != "kafka":
        return system
    return f"kafka:{asyncio.run(Library.default().resolve('newest 4')).version}"


def table(found: Mapping[str, Figures]) -> Iterator[tuple[str, ...]]:
    """A row for each figure: each system's, and the ratio of the last to the first."""
    first, last = next(iter(found.values())), list(found.values())[-1]
    for name in last:
        ratio = f"{last[name] / first[name]:.2f}" if len(found) > 1 else ""
        yield name, *(f"{figures[name]:,.1f}" for figures in found.values()), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of writes, the best of which counts")
    parser.add_argument("--log-mb", type=int, default=1000, help="megabytes of the large log; 0: no restart")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="measure only this one")
    given = parser.parse_args()
    systems = [installed(system) for system in given.system or SYSTEMS]
    found = {system: measured(system, given.rounds, given.log_mb * 1_000_000) for system in systems}
    print(tabulate(table(found), headers=["", *found, "ratio"], disable_numparse=True))


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        system, directory, rounds, log_bytes = sys.argv[2:]
        print(json.dumps(asyncio.run(measure(system, Path(directory), int(rounds), int(log_bytes)))))
    else:
        main()
