"""Inject faults into Kafka quorums and check what clients and nodes saw.

The entry point of `splitbrain COMMAND …`: one module a command, each a thin layer over one module of the composition.

Exit codes are Jepsen's: 0 valid, 1 invalid, 2 unknown, 254 bad input, 255 the environment or splitbrain failed. An
expected error is one line on standard error; an unexpected one is a traceback and exit 255. Only the module of the
command that is called is imported, and a command imports what carries it out when it is called.
"""

from __future__ import annotations

import atexit
import errno
import gc
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer

from harness.commands.options import examples
from harness.commands.output.console import print_error
from harness.commands.usage import help_instead, is_usage_error, usage_message
from harness.model import SplitbrainError
from harness.model.errors import EXIT_INTERNAL, EXIT_USAGE, EXIT_VALID, one_line, reason_of
from harness.model.shown_values import shown
from nodes.hosts.sandbox import widen_path

MODULE_OF: Final = {
    "scenarios": "scenarios",
    "reproduce": "reproduce",
    "run": "run",
    "explore": "explore",
    "coverage": "explore",
    "simulate": "simulate",
    "nightly": "nightly",
    "nights": "nightly",
    "check": "check",
    "export": "check",
    "report": "check",
    "compare": "compare",
    "baseline": "compare",
    "replay": "replay",
    "shrink": "replay",
    "runs": "runs",
    "heal": "runs",
    "serve": "serve",
    "bundle": "sharing",
    "import": "sharing",
    "unclean-recovery": "unclean_recovery",
    "elect-leaders": "elect_leaders",
    "workloads": "workloads",
    "switches": "workloads",
    "doctor": "doctor",
    "plugins": "plugins",
    "faults": "faults",
    "kafka": "kafka",
}
"""The module of each command, in the order of the help."""

INTERRUPTED = 130
GARBAGE_THRESHOLD: Final = 50_000
"""How many objects are made before Python collects garbage: imports make hundreds of thousands, almost none of it."""

IMPOSSIBLE_PATH = (errno.ENAMETOOLONG, errno.ELOOP)
"""What the kernel says of paths that only a user can have made up."""


def application(command: str | None = None) -> typer.Typer:
    """The parser of one command; of all commands, if none has this name."""
    app = typer.Typer(
        no_args_is_help=True,
        rich_markup_mode=None,
        help=__doc__.splitlines()[0],
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=examples("splitbrain reproduce PV-01", "splitbrain run --workload register --faults partition,kill"),
    )
    app.callback()(_options)
    modules = [MODULE_OF[command]] if command in MODULE_OF else dict.fromkeys(MODULE_OF.values())
    for module in modules:
        import_module(f"harness.commands.{module}").register(app)
    return app


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"splitbrain {version('splitbrain')}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Inject faults into Kafka quorums and check what clients and nodes saw."""


def main() -> None:
    """The console command's entry point.

    Python collects garbage several times when it exits; frozen objects, which are all that was imported, are left out.
    """
    gc.set_threshold(GARBAGE_THRESHOLD)
    atexit.register(gc.freeze)
    widen_path()
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(exit_code_of(sys.argv[1:]))


def _interrupt(*_: Any) -> None:
    """SIGTERM, as from `kill` or a service that is stopped, does what Ctrl-C does: a run heals its faults first."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a script's background jobs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def exit_code_of(arguments: Sequence[str]) -> int:
    """Run the command with these arguments; print its error, if any."""
    command = typer.main.get_command(application(*arguments[:1]))
    try:
        code: int = command.main(list(arguments), prog_name="splitbrain", standalone_mode=False) or EXIT_VALID
    except SplitbrainError as error:
        print_error(one_line(str(error)))
        return error.exit_code
    except BrokenPipeError:
        return EXIT_VALID
    except OSError as error:
        return _refused_by_the_machine(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: the exit code must not be one that means a verdict
        return _unexpected(error)
    if code == INTERRUPTED:  # releases of typer differ: some raise, some return this code
        print_error("interrupted; what was recorded is kept")
    return code


def _refused_by_the_machine(error: OSError) -> int:
    if error.errno in IMPOSSIBLE_PATH:
        print_error(f"{shown(error.filename)}: expected a path that can exist: {reason_of(error)}")
        return EXIT_USAGE
    print_error(one_line(f"{error.filename or 'the machine'}: {error.strerror or error}"))
    return EXIT_INTERNAL


def _unexpected(error: Exception) -> int:
    if is_usage_error(error):
        if help_text := help_instead(error):
            print(help_text)
        print_error(one_line(usage_message(error)))
        return EXIT_USAGE
    traceback.print_exception(error)
    return EXIT_INTERNAL
