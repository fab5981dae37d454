"""Requests and command-line tools whose results are recorded and compared: the capability, and the steps.

    ask("n1", Api.VOTE, 2, {"topics": […]}, expect={"topics.0.partitions.0.vote_granted": False})
    run_tool("kafka-features", ["--bootstrap-controller", "$n1_controller", "describe"], output=["kraft.version"])

Values, expectations and arguments may have placeholders (harness.model.placeholders). What does not agree with the
expectations is a finding of the check `responses`, not a fault without effect.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from harness.model.faults.rpc import Api
from harness.model.placeholders import Facts
from harness.model.story import Step, Who

ASK: Final = "ask"
RUN_TOOL: Final = "run_tool"
OWN_TOOLS = ("unclean-recovery", "elect-leaders")
"""Commands of splitbrain that stories run as tools; they work on any cluster that has their RPCs."""

ListenerName = Literal["controller", "client"]
"""Which of a node's listeners a request is sent to: the quorum's, or its broker's for clients."""

TimedOut = Literal["timed out"]
TIMED_OUT: Final[TimedOut] = "timed out"

ASK_SECONDS = 10.0
TOOL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request: the API's key or name, its version, the listener, and the values of its fields as JSON."""

    api: int | str
    version: int
    listener: ListenerName
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool ended. exit_code is None if it was killed at its deadline; output is all that it printed, in order."""

    exit_code: int | None
    output: str


class Probe(Protocol):
    """Asks nodes, and runs tools where they reach the nodes."""

    async def facts(self, names: Collection[str], node: int | None) -> Facts:
        """The placeholders of these names, now; node is the node that is asked.

        Raises PeerFailure for what is not known, e.g. the epoch while no node leads.
        """

    async def ask(self, node: int, request: ApiRequest, timeout_seconds: float) -> Any:
        """Send one request to one node; returns the response as JSON.

        Raises NotSent or NoAnswer without a response, BadInput for values that do not fit the request.
        """

    async def run_tool(
        self,
        tool: str,
        arguments: Sequence[str],
        timeout_seconds: float,
        files: Mapping[str, str],
        stop_at: str | None,
    ) -> ToolResult:
        """Run a tool until it ends, or kill it at the deadline. Raises EnvironmentFailure if it cannot be started.

        All tools run in one directory. files are written there before, by name; stop_at is a regular expression: the
        tool gets SIGTERM when its output contains it.
        """


def ask(
    who: Who,
    api: Api | str | int,
    version: int,
    values: Mapping[str, Any],
    expect: Mapping[str, Any] | None = None,
    *,
    listener: ListenerName = "controller",
    is_answered: bool = True,
    within: float = ASK_SECONDS,
    until_expected: bool = False,
    name: str = "",
) -> Step:
    """Send one request to one node and compare its response.

    api is one of Api, a key, or a name such as "FetchSnapshot". values are the request's fields by the names of the
    library kio, times in milliseconds. expect maps paths of the response to what is expected there
    (harness.model.expected), error codes by name. With is_answered=False no answer is expected within the time.
    With until_expected the request is sent again until the response is as expected, for as long as within.
    """
    value = {"who": who, "api": api.name.lower() if isinstance(api, Api) else api, "version": version}
    expected = {"expect": dict(expect or {}), "is_answered": is_answered, "within_seconds": within, "name": name}
    again = {"until_expected": True} if until_expected else {}
    return Step(ASK, {**value, "listener": listener, "values": dict(values), **expected, **again})


def run_tool(
    tool: str,
    arguments: Sequence[str],
    *,
    exit_code: int | TimedOut = 0,
    output: Sequence[str] = (),
    no_output: Sequence[str] = (),
    within: float = TOOL_SECONDS,
    until_expected: bool = False,
    files: Mapping[str, str] | None = None,
    stop_at: str = "",
    name: str = "",
) -> Step:
    """Run one of Kafka's command-line tools and compare how it ends.

    tool is named as in Kafka's bin folder, without `.sh`; `unclean-recovery` and `elect-leaders` are ours. output and
    no_output are regular expressions, which the output (standard output and error together) contains, or does not.
    exit_code "timed out": the tool is still running after this many seconds, and is killed. With until_expected it is
    run again until it ends as expected, and not begun again after this many seconds. files are written first, by name,
    to the directory in which all tools of a run are started. The tool gets SIGTERM when its output contains the regular
    expression stop_at.
    """
    expected = {"exit_code": exit_code, "output": list(output), "no_output": list(no_output)}
    value = {"tool": tool, "arguments": list(arguments), **expected, "within_seconds": within, "name": name}
    given = {"until_expected": until_expected, "files": dict(files or {}), "stop_at": stop_at}
    return Step(RUN_TOOL, {**value, **{key: each for key, each in given.items() if each}})
