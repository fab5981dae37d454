"""`splitbrain unclean-recovery` and `elect-leaders` as processes: what they print, their exit codes, and signals."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from rich.console import Console
from rich.progress import Progress

from harness.commands.output.bar import Bar
from harness.commands.output.progress import Verbosity
from harness.model.errors import EXIT_INTERNAL, EXIT_INVALID, EXIT_USAGE, EXIT_VALID
from nodes.wire import codec
from tests.support.command import COMMAND, CommandResult, environment, wait_until
from tests.support.nodes.scripted_brokers import (
    SERVED,
    Partition,
    Reply,
    ScriptedCluster,
    after,
    answer,
)

SECONDS = 60
RECOVER = ("unclean-recovery", "--all-offline-partitions")
Process = asyncio.subprocess.Process


async def start(cluster: ScriptedCluster, *arguments: Any) -> Process:
    """Start the command against a cluster."""
    command, *rest = map(str, arguments)
    argv = (COMMAND, command, "--bootstrap-server", cluster.bootstrap, *rest)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, env=environment())


async def ended(process: Process) -> CommandResult:
    """Wait for the command's end."""
    try:
        async with asyncio.timeout(SECONDS):
            out, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return CommandResult(process.returncode, out.decode(), errors.decode().splitlines())


async def run(cluster: ScriptedCluster, *arguments: Any) -> CommandResult:
    return await ended(await start(cluster, *arguments))


def against(cluster: Callable[[], ScriptedCluster], *arguments: Any) -> tuple[CommandResult, ScriptedCluster]:
    """Run the command against a cluster, which is made in the event loop."""

    async def scenario() -> tuple[CommandResult, ScriptedCluster]:
        async with cluster() as made:
            return await run(made, *arguments), made

    return asyncio.run(scenario())


def three(**settings: Any) -> ScriptedCluster:
    """t-0 can be recovered, t-1 has a leader, and the longest log of t-2 is on a broker that is fenced."""
    logs: dict[int, tuple[int, ...]] = {1: (3, 40), 2: (3, 70)}
    partitions = {
        ("t", 0): Partition((1, 2), None, logs),
        ("t", 1): Partition((1, 2), 1, logs),
        ("t", 2): Partition((1, 3), None, {1: (3, 40), 3: (7, 70, 6)}, {1: ErrorCode.kafka_storage_error}),
    }
    return ScriptedCluster(partitions, **settings)


def errors_of(result: CommandResult) -> list[str]:
    return [line for line in result.messages if line.startswith("splitbrain: ")]


def test_table_of_replicas_shows_what_would_be_chosen() -> None:
    result, cluster = against(three, *RECOVER, "--show-replica-info")
    assert result.code == EXIT_VALID, result.messages
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[0] == ["topic", "partition", "broker", "epoch", "log", "end", "offset", "error", "chosen"]
    assert rows[2:6] == [
        ["t", "0", "1", "3", "40"],
        ["t", "0", "2", "3", "70", "yes"],
        ["t", "2", "1", "-", "-", "KAFKA_STORAGE_ERROR"],
        ["t", "2", "3", "7", "(last", "record", "6)", "70", "yes"],
    ]
    assert result.out.splitlines()[-1] == "2 chosen"
    assert cluster.asked(codec.ELECT_LEADERS) == []


def test_replicas_outcomes_and_summary_are_json() -> None:
    result, _ = against(lambda: three(fenced=[3]), *RECOVER, "--show-replica-info", "--automated-recovery", "--json")
    assert result.code == EXIT_INVALID
    lines = [json.loads(line) for line in result.out.splitlines()]
    place = {"topic": "t", "partition": 2, "broker": 3}
    assert lines[3] == {
        "kind": "replica", **place, "epoch": 7, "last_written_epoch": 6, "log_end_offset": 70, "error": None, "chosen":
        True
    }  # fmt: skip
    assert (lines[2]["log_end_offset"], lines[2]["error"]) == (None, "KAFKA_STORAGE_ERROR")
    refused = {"outcome": "failed", "leader": 3, "reason": "ELIGIBLE_LEADERS_NOT_AVAILABLE"}
    assert lines[4:] == [
        {"kind": "partition", "topic": "t", "partition": 0, "outcome": "elected", "leader": 2, "reason": None},
        {"kind": "partition", "topic": "t", "partition": 2, **refused},
        {"kind": "summary", "counts": {"elected": 1, "failed": 1}, "interrupted": False},
    ]
    assert errors_of(result) == ["splitbrain: t-2: failed, leader 3: ELIGIBLE_LEADERS_NOT_AVAILABLE"]


def test_chosen_leaders_are_written_reviewed_and_elected(tmp_path: Path) -> None:
    """UR-09."""
    leaders = tmp_path / "leaders.json"

    async def scenario() -> None:
        async with three() as cluster:
            chosen = await run(cluster, *RECOVER, "--manual-recovery-output-file", leaders)
            assert chosen.code == EXIT_VALID, chosen.messages
            assert f"--path-to-json-file {leaders}" in chosen.out
            assert cluster.asked(codec.ELECT_LEADERS) == []
            leaders.write_text(leaders.read_text().replace('"designatedLeader": 2', '"designatedLeader": 1'))
            elect = ("elect-leaders", "--election-type", "designated", "--path-to-json-file", leaders)
            elected = await run(cluster, *elect)
            assert elected.code == EXIT_VALID, elected.messages
            assert elected.out.splitlines()[-1] == "2 elected"
            assert [each.leader for each in cluster.partitions.values()] == [1, 1, 3]
            again = await run(cluster, *elect)
            assert (again.code, again.out.splitlines()[-1]) == (EXIT_VALID, "2 already online")

    asyncio.run(scenario())


def test_existing_file_is_refused_before_the_cluster_is_asked(tmp_path: Path) -> None:
    leaders = tmp_path / "leaders.json"
    leaders.write_text("kept")
    result, cluster = against(three, *RECOVER, "--manual-recovery-output-file", leaders)
    assert (result.code, cluster.requests, leaders.read_text()) == (EXIT_USAGE, [], "kept")
    assert result.messages == [
        f"splitbrain: {leaders}: expected a new file, found an existing one, which is never replaced"
    ]


def test_partitions_of_a_file_have_their_outcomes(tmp_path: Path) -> None:
    """UR-12."""
    listed = tmp_path / "listed.json"
    listed.write_text(
        '{"partitions": [{"topic": "t", "partitions": [0, 1, 2, 2, 7]}, {"topic": "no", "partitions": [0]}]}'
    )
    result, _ = against(three, "unclean-recovery", "--path-to-json-file", listed, "--automated-recovery")
    assert result.code == EXIT_INVALID
    rows = [line.split() for line in result.out.splitlines()]
    assert rows[2:4] == [["t", "0", "elected", "2"], ["t", "1", "already", "online", "1"]]
    assert result.out.splitlines()[-1] == "1 elected, 1 already online, 3 failed"
    assert errors_of(result) == [
        "splitbrain: no-0: failed: UNKNOWN_TOPIC_OR_PARTITION",
        "splitbrain: t-2: failed: the input lists it more than once",
        "splitbrain: t-7: failed: the topic has no such partition",
    ]


BAD = {
    "no input": (
        ("unclean-recovery", "--automated-recovery"),
        "--path-to-json-file, --all-offline-partitions: expected",
    ),
    "nothing to do": (RECOVER, "--show-replica-info, --manual-recovery-output-file, --automated-recovery: expected at"),
    "both recoveries": (
        (*RECOVER, "--automated-recovery", "--manual-recovery-output-file", "x"),
        "--manual-recovery-output-file, --automated-recovery: expected one of both at most, found both",
    ),
    "no such file": (("unclean-recovery", "--path-to-json-file", "/no", "--show-replica-info"), "/no: expected a JSON"),
    "no duration": (
        (*RECOVER, "--show-replica-info", "--recovery-duration-ms", "0"),
        "--recovery-duration-ms: expected",
    ),
    "no config": (
        (*RECOVER, "--show-replica-info", "--command-config", "/no"),
        "/no: expected a properties file, found",
    ),
    "no election type": (("elect-leaders", "--all-topic-partitions"), "expected --election-type, found nothing"),
    "another type": (("elect-leaders", "--election-type", "random"), "--election-type: expected one of "),
    "no designated leader": (
        ("elect-leaders", "--election-type", "designated", "--topic", "t", "--partition", "0"),
        "--election-type DESIGNATED: expected --path-to-json-file, which names the designated leaders",
    ),
    "no partition": (("elect-leaders", "--election-type", "unclean", "--topic", "t"), "--topic, --partition: expected"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    result, cluster = against(three, *arguments)
    assert (result.code, cluster.requests) == (EXIT_USAGE, [])
    assert len(result.messages) == 1
    assert message in result.messages[0]


@pytest.mark.parametrize("servers", ["a", "127.0.0.1:0", ""])
def test_servers_of_another_form_are_one_line(servers: str) -> None:
    result, _ = against(three, *RECOVER, "--show-replica-info", "--bootstrap-server", servers)
    assert result.code == EXIT_USAGE
    assert result.messages[-1].startswith("splitbrain: --bootstrap-server: expected host:port[,host:port], found")


def test_cluster_that_lacks_an_api_is_one_line() -> None:
    served = {broker: {**SERVED, codec.ELECT_LEADERS: range(3)} for broker in (1, 2, 3)}
    result, _ = against(lambda: three(served=served), *RECOVER, "--automated-recovery", "--quiet")
    assert result.code == EXIT_INTERNAL
    assert len(result.messages) == 1
    assert "ElectLeaders (API 43) version 3 and GetReplicaLogInfo (API 93) versions 0 to 1, found" in result.messages[0]
    assert result.messages[0].startswith("splitbrain: broker 1 at 127.0.0.1:")


def large() -> ScriptedCluster:
    return ScriptedCluster({("t", n): Partition((1,), None, {1: (1, 1)}) for n in range(2500)})


def is_caught(process: Process, number: signal.Signals) -> bool:
    """Whether the process has a handler for a signal; the tool removes its own when the first signal has come."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (caught,) = (line.split()[1] for line in status if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (number - 1) & 1)


async def send(process: Process, number: signal.Signals) -> None:
    process.send_signal(number)
    wait_until(lambda: not is_caught(process, signal.SIGTERM), "the tool has noticed the signal")


def interrupted(
    cluster: ScriptedCluster, api_key: int, count: int, proceed: Callable[[Process], Awaitable[None]], *arguments: Any
) -> CommandResult:
    """Start the tool, wait until so many requests have come, go on as proceed does, and wait for the end."""

    async def scenario() -> CommandResult:
        async with cluster:
            process = await start(cluster, *RECOVER, *arguments)
            async with asyncio.timeout(SECONDS):
                await cluster.wait_for(api_key, count)
            await proceed(process)
            return await ended(process)

    return asyncio.run(scenario())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_signal_waits_for_the_election_under_way_and_sends_no_other(number: signal.Signals) -> None:
    """UR-20."""
    cluster, event = large(), asyncio.Event()
    cluster.script(codec.ELECT_LEADERS, answer, after(event))

    async def proceed(process: Process) -> None:
        await send(process, number)
        event.set()

    result = interrupted(cluster, codec.ELECT_LEADERS, 2, proceed, "--automated-recovery")
    assert result.code == EXIT_INVALID
    assert len(cluster.asked(codec.ELECT_LEADERS)) == 2
    assert result.out.splitlines()[-1] == "interrupted; 2,000 elected, 500 not done"
    assert len([line for line in errors_of(result) if line.endswith(": not done, leader 1: interrupted")]) == 500
    assert sum(each.leader is not None for each in cluster.partitions.values()) == 2000


def test_election_that_is_not_answered_within_its_time_after_a_signal_is_unknown(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=1500\n")
    cluster = three(brokers=(1, 2, 3))
    cluster.script(codec.ELECT_LEADERS, unanswered)

    async def proceed(process: Process) -> None:
        await send(process, signal.SIGTERM)

    arguments = ("--automated-recovery", "--command-config", config)
    result = interrupted(cluster, codec.ELECT_LEADERS, 1, proceed, *arguments)
    assert (result.code, result.out.splitlines()[-1]) == (EXIT_INVALID, "interrupted; 2 unknown")
    assert len(cluster.asked(codec.ELECT_LEADERS)) == 1
    assert "splitbrain: t-0: unknown, leader 2: interrupted after: waiting for 127.0.0.1" in errors_of(result)[0]


async def unanswered(_model: Any) -> Reply:
    await asyncio.Event().wait()
    return None


def test_signal_while_brokers_are_asked_ends_at_once_and_changes_nothing(tmp_path: Path) -> None:
    cluster, leaders = three(), tmp_path / "leaders.json"
    cluster.script(codec.GET_REPLICA_LOG_INFO, *[unanswered] * 3)

    async def proceed(process: Process) -> None:
        process.send_signal(signal.SIGTERM)

    arguments = ("--show-replica-info", "--manual-recovery-output-file", leaders, "--recovery-duration-ms", 600_000)
    result = interrupted(cluster, codec.GET_REPLICA_LOG_INFO, 3, proceed, *arguments)
    assert (result.code, result.out.splitlines()[-1]) == (EXIT_INVALID, "interrupted; 2 not done")
    assert "t        0            1         -        -                 interrupted" in result.out
    assert not leaders.exists()


def test_signal_before_anything_is_known_is_reported() -> None:
    cluster = three()
    cluster.script(codec.METADATA, unanswered)

    async def proceed(process: Process) -> None:
        process.send_signal(signal.SIGTERM)

    result = interrupted(cluster, codec.METADATA, 1, proceed, "--automated-recovery")
    assert (result.code, result.out) == (EXIT_INVALID, "interrupted; nothing was done\n")


def test_second_signal_does_not_wait() -> None:
    cluster = three()
    cluster.script(codec.ELECT_LEADERS, unanswered)

    async def proceed(process: Process) -> None:
        await send(process, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)

    result = interrupted(cluster, codec.ELECT_LEADERS, 1, proceed, "--automated-recovery")
    assert result.code == -signal.SIGTERM


@pytest.mark.parametrize(
    ("flag", "stages", "notes"), [("--quiet", 0, False), ("--format=text", 3, False), ("--verbose", 3, True)]
)
def test_progress_is_lines_where_there_is_no_terminal(flag: str, stages: int, notes: bool) -> None:
    arguments = (*RECOVER, "--automated-recovery", "--recovery-duration-ms", 200, flag)
    result, _ = against(lambda: three(dead=[1]), *arguments)
    begins = (
        "reading the cluster's metadata",
        "asking 3 brokers for 4 logs, up to 200 ms",
        "electing leaders of 2 partitions",
    )
    assert [line for line in result.messages if line in begins] == list(begins[:stages])
    assert any(line.startswith("broker 1: connecting to") for line in result.messages) is notes


def test_progress_is_a_bar_on_a_terminal() -> None:
    screen = StringIO()
    with Progress(console=Console(file=screen, force_terminal=True, width=100), auto_refresh=False) as bars:
        shown = Bar(Verbosity.VERBOSE, bars)
        shown.stage("asking", 4)
        shown.stage("electing", 10)
        shown.done(5)
        shown.note("broker [1]: not yet")
        (task,) = bars.tasks
        assert (task.description, task.completed, task.total) == ("electing", 5, 10)
    assert "broker [1]: not yet" in screen.getvalue()
