"""The JVM that runs the Raft clients of one or several releases, and simulates one cluster after another.

    with RaftDriver(release) as driver:
        reply = driver.exchange([["open", …], ["start", 1], ["advance", 5000]])

Commands and replies are lines of JSON; driver/Driver.java lists them. The sources are compiled on first use.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.model import BadInput, EnvironmentFailure
from nodes.kafka.versions import KafkaVersion
from nodes.observe.log_lines import NOTES, TRANSITION
from nodes.simulation.kafka.jars import JDK_PACKAGE, RaftRelease
from nodes.simulation.kafka.log_directory import LogDirectory

MAIN = "splitbrain.simulation.Driver"
JVM_FLAGS = (
    *("-Xmx512m", "-XX:+UseSerialGC", "-Xss2m", "-XX:-UsePerfData", "-Duser.timezone=UTC"),
    *("-Xlog:disable", "-XX:+DisplayVMOutputToStderr"),  # nothing else may write between the replies
    # driver/SetOrder.java fixes the order of Set.of; compiled code must not keep the order from before. Only these
    # methods depend on it.
    "-XX:CompileCommand=quiet",
    "-XX:CompileCommand=exclude,java/util/ImmutableCollections$Set12*.*",
    "-XX:CompileCommand=exclude,java/util/ImmutableCollections$SetN$SetNIterator.*",
    "-XX:CompileCommand=exclude,java/util/ImmutableCollections$MapN$MapNIterator.*",
)
END_SECONDS = 10.0

Command = Sequence[Any]


class RaftDriver:
    """One JVM. Not for several threads. A node runs the first of these releases, unless its cluster says otherwise."""

    def __init__(self, *releases: RaftRelease, java: str = "java", has_files: bool = False) -> None:
        """Compile the driver if necessary and start the JVM. Raises EnvironmentFailure.

        java is its program. has_files: nodes may have their logs in files.
        """
        self.releases: Sequence[KafkaVersion] = tuple(release.version for release in releases)
        self.exchanges = 0  # round trips so far
        self.end_cluster: Callable[[], None] = lambda: None  # closes the cluster that is simulated
        class_paths = [release.class_path for release in releases]
        argv = [java, *JVM_FLAGS, "-cp", releases[0].driver_class_path, MAIN, *class_paths]
        self._resources = contextlib.ExitStack()
        self._errors = self._resources.enter_context(tempfile.TemporaryFile(mode="w+"))  # noqa: SIM115
        self._logs = self._resources.enter_context(LogDirectory()) if has_files else None
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True
            )
        except FileNotFoundError as error:
            self._resources.close()
            raise EnvironmentFailure(
                f"simulating Kafka: java is not installed; as root: apt-get install -y {JDK_PACKAGE}"
            ) from error
        try:
            self._described: Sequence[Mapping[str, Any]] = self.exchange([["describe"]])["result"]
            self.exchange([["capture", [TRANSITION.rstrip(), *NOTES]]])
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> RaftDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process_id(self) -> int:
        """The JVM's."""
        return self._process.pid

    @property
    def log_directory(self) -> Path | None:
        """Where nodes have their logs in files; None if they cannot."""
        return None if self._logs is None else self._logs.path

    @property
    def version(self) -> str:
        """The releases, as messages name them."""
        return " and ".join(map(str, self.releases))

    @property
    def has_dynamic_quorum(self) -> bool:
        """Whether voters can change on all releases."""
        return all(release.has_dynamic_quorum for release in self.releases)

    def settings(self, release: int) -> Sequence[str]:
        """The properties controller.quorum.* that a release's Raft client reads."""
        return tuple(self._described[release]["settings"])

    @functools.cached_property
    def versions(self) -> Mapping[int, range]:
        """The versions of each API that all releases have, by its key."""
        common: dict[int, range] = {}
        for key in self._described[0]["versions"]:
            ends = [described["versions"].get(key, (1, 0)) for described in self._described]
            common[int(key)] = range(max(end[0] for end in ends), min(end[1] for end in ends) + 1)
        return common

    def exchange(self, commands: Sequence[Command]) -> Mapping[str, Any]:
        """Send commands and return the reply.

        Raises BadInput if Kafka refuses a property's value, EnvironmentFailure if the JVM has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.exchanges += 1
        try:
            self._process.stdin.write(json.dumps(commands, separators=(",", ":")) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EnvironmentFailure(f"simulating Kafka {self.version}: the JVM ended: {self._last_error()}")
        reply: Mapping[str, Any] = json.loads(line)
        if "refused" in reply:
            raise BadInput(f"simulating Kafka {self.version}: {reply['refused']}")
        if "error" in reply:
            raise RuntimeError(f"the driver of Kafka {self.version} failed: {reply['error']}")
        return reply

    def check(self, facts: Sequence[Command]) -> Sequence[tuple[int, str, str]]:
        """The violations in a list of facts: node, invariant, message. A fact is a method of driver/Invariants.java."""
        return [(node, name, message) for node, name, message in self.exchange([["check", facts]])["result"]]

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the process may have ended
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._resources.close()

    def _last_error(self) -> str:
        code = self._process.wait(END_SECONDS)
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        return f"exit code {code}: {lines[0][:300] if lines else 'no reason given'}"
