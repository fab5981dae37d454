"""Options that several commands share and that are not part of a request (harness.planning.options has those).

    @prints(progress=True)
    def check(paths: …, output: Output) -> None: ...

    app.command("check", epilog=examples("splitbrain check latest"))(check)

Contains the options and the text below each command's help. Does not print (harness.commands.output).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.commands.output.console import Output
from harness.commands.output.progress import Verbosity


class Format(Enum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


STORE = Path("results/runs")

StoreOption = Annotated[Path, typer.Option(envvar="SPLITBRAIN_STORE", help="Folder of the stored runs.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the settled plan as JSON, and run nothing.")]
KnownOption = Annotated[
    Path | None, typer.Option(help="TOML file with known findings; known-findings.toml if that exists.", metavar="FILE")
]
BootstrapOption = Annotated[
    str, typer.Option(help="Brokers to connect to first, with commas between them.", metavar="HOST:PORT[,HOST:PORT]")
]
CommandConfigOption = Annotated[
    Path | None,
    typer.Option(help="Properties file as for Kafka's tools, e.g. with SASL/PLAIN credentials.", metavar="FILE"),
]
MasterOption = Annotated[str | None, typer.Option(help="Spark master that runs the checks, e.g. spark://host:7077.")]


def prints(*, progress: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command --format and --json and, with progress, --quiet and --verbose, as its parameter `output`."""
    flags: dict[str, tuple[Any, Any]] = {
        "result_format": (
            Annotated[Format, typer.Option("--format", help="text, or one JSON object per line.")],
            Format.TEXT,
        ),
        "as_json": (Annotated[bool, typer.Option("--json", help="Short for --format json.")], False),
    }
    if progress:
        flags["quiet"] = Annotated[bool, typer.Option("--quiet", "-q", help="Show results only.")], False
        flags["verbose"] = Annotated[bool, typer.Option("--verbose", "-v", help="Show every event.")], False

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [each for each in inspect.signature(command, eval_str=True).parameters.values() if each.name != "output"]

        @functools.wraps(command)
        def with_output(**given: Any) -> None:
            output = _output_of({name: given.pop(name) for name in flags})
            command(**given, output=output)

        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, keyword, default=default, annotation=annotation)
            for name, (annotation, default) in flags.items()
        ]
        parameters = [*(each.replace(kind=keyword) for each in own), *added]
        with_output.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_output.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_output

    return decorate


def _output_of(flags: Mapping[str, Any]) -> Output:
    verbosity = (
        Verbosity.QUIET if flags.get("quiet") else Verbosity.VERBOSE if flags.get("verbose") else Verbosity.USUAL
    )
    return Output(flags["as_json"] or flags["result_format"] is Format.JSON, verbosity)


EXIT_CODES = (
    "Exit codes: 0 valid or done, 1 invalid, 2 unknown, 254 bad input, 255 the environment or splitbrain failed."
)


def examples(*commands: str) -> str:
    """The text below a command's help: examples, and what its exit codes mean."""
    lines = "\n".join(f"  {command}" for command in commands)
    return f"\b\nExample{'s' if len(commands) > 1 else ''}:\n{lines}\n\n{EXIT_CODES}"
