"""Generated bad input for commands, plans, inventories and the files of a run; and what an answer to it must be.

Flags and keys come from the commands and models themselves, so a new one gets bad input too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any

import typer
from hypothesis import strategies as st

from harness.commands.main import application, exit_code_of
from harness.model import BadInput
from harness.planning.plan import Request
from harness.planning.story_steps import step_types

LEAKS = (
    *("Traceback", "pydantic", "Input should", "Value error", "Invalid value for", "No such option", "Errno"),
    *("codec can't", "Exceeds the limit", "recursion", "should match pattern", "are not permitted", "NoneType"),
)
"""Words of the libraries and of Python that no message may contain."""
MESSAGE_CHARACTERS_MAX = 5000

WORDS = (
    *("", "0", "-1", "-5", "1e999", "nan", "inf", "true", "null", "a=b", "=", "a=", "none,kill", "kafka:", ":", "{"),
    *("\x1b[31m", "é", "a\nb", "x" * 3000, "../..", "/dev/null/x", "9" * 5000, "\u2028", "$(id)", "--", "%s", "{}"),
)
TEXT = st.sampled_from(WORDS) | st.text(st.characters(exclude_characters="\x00", codec="utf-8"), max_size=8)


def nested(scalars: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Scalars, and lists and tables of them."""
    return st.recursive(scalars, lambda each: st.lists(each, max_size=3) | st.dictionaries(TEXT, each, max_size=3))


INTEGERS = st.integers(-(2**63), 2**63 - 1)
JSON_VALUES = nested(st.none() | st.booleans() | INTEGERS | st.floats() | TEXT)
TOML_VALUES = nested(st.booleans() | INTEGERS | st.floats() | TEXT | st.dates())
KEYS = sorted(field.alias or name for name, field in Request.model_fields.items())
STEPS = st.fixed_dictionaries({"f": st.sampled_from(sorted(step_types())) | TEXT}, optional={"value": TOML_VALUES})
PLANS = st.dictionaries(st.sampled_from(KEYS) | TEXT, TOML_VALUES, max_size=3) | st.builds(
    lambda steps: {"story": steps}, st.lists(STEPS, min_size=1, max_size=2)
)
FILES = st.binary(max_size=60) | st.sampled_from(
    [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"a = " + b"[" * 100_000, b'{"a": ' * 100_000, b"\x00", b"a = " + b"9" * 9999]
)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words, e.g. ("faults", "test")."""
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))
    if path:
        yield path, command


COMMAND = typer.main.get_command(application())
COMMANDS = dict(commands(COMMAND))
DRY: dict[tuple[str, ...], tuple[str, ...]] = {("run",): ("--dry-run",), ("reproduce",): ("PV-01", "--dry-run")}
"""What makes a command settle its plan and stop."""
OTHERS = (
    *(("runs",), ("heal",), ("export",), ("report",), ("faults", "show"), ("switches",), ("scenarios",)),
    *(("workloads",), ("plugins",)),
)
"""Commands that read what they are given and change nothing."""


def flags_of(path: tuple[str, ...]) -> list[str]:
    """The flags of a command that take a value."""
    takes_value = [each for each in COMMANDS[path].params if not getattr(each, "is_flag", False)]
    return [option for each in takes_value for option in each.opts if option.startswith("--")]


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with generated flags and arguments; it may be correct, and then it settles a plan or lists a store."""
    path = draw(st.sampled_from([*DRY, *OTHERS]))
    pairs = draw(st.lists(st.tuples(st.sampled_from([*flags_of(path), "--no-flag"]), TEXT), max_size=3))
    arguments = draw(st.lists(TEXT, max_size=2)) if path in OTHERS else []
    return [*path, *DRY.get(path, ()), *(word for pair in pairs for word in pair), *arguments]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended: its exit code, and its standard error."""

    code: int
    messages: str


def answer_to(argv: list[str]) -> Answer:
    """Carry out the command in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = exit_code_of(argv)
    return Answer(code, err.getvalue())


def assert_is_one_clear_line(message: str) -> None:
    """The message is short, in one line, and in our words."""
    assert len(message.splitlines()) == 1, message
    assert message.strip().isprintable(), message
    assert len(message) <= MESSAGE_CHARACTERS_MAX, len(message)
    assert [leak for leak in LEAKS if leak in message] == [], message


def assert_is_read_or_refused(read: Callable[[], object]) -> None:
    """Reading succeeds, or raises BadInput with a clear message."""
    try:
        read()
    except BadInput as error:
        message = str(error)
        assert message, "an empty message"
        assert [leak for leak in LEAKS if leak in message] == [], message
        assert len(message) <= MESSAGE_CHARACTERS_MAX, len(message)
