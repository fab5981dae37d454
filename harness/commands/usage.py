"""What is wrong with a command line that the parser refuses, in our words.

    splitbrain: --time-limt: expected an option of run; did you mean --time-limit? (see splitbrain run --help)

The parser is typer's own copy of click in some releases and click itself in others; its errors have the same names in
both, and no public base class, so they are told apart by name.

Contains the words for unknown options and commands, and for missing, surplus and impossible values. Does not contain
the values that a request's model refuses (harness.model.validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from harness.model.shown_values import WHOLE_NUMBER, listed, plain, shown
from harness.model.suggestions import did_you_mean

QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")


def usage_message(error: Any) -> str:
    """What was expected and what was found, in one line, and where to read on."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "splitbrain"
    words = WORDS.get(type(error).__name__, _of_command)
    return f"{words(error, command.partition(' ')[2])} (see {command} --help)"


def is_usage_error(error: Exception) -> bool:
    """Whether the parser refused the command line."""
    return hasattr(error, "format_message")


def help_instead(error: Exception) -> str | None:
    """The help of a group of commands that was called without a command; None for any other error."""
    context = getattr(error, "ctx", None)
    return context.get_help() if context and type(error).__name__.startswith("NoArgsIsHelp") else None


def _of_option(error: Any, command: str) -> str:
    known = _options(error.ctx)
    name = error.option_name.partition("=")[0]
    return f"{plain(name)}: expected an option{f' of {command}' if command else ''}{did_you_mean(name, known)}"


def _of_option_value(error: Any, _command: str) -> str:
    takes_one = "requires" in error.message
    return f"{plain(error.option_name)}: expected {'a value, found none' if takes_one else 'no value, found one'}"


def _of_missing(error: Any, command: str) -> str:
    return f"{_place(command)}expected {_parameter(error.param)}, found nothing"


def _of_value(error: Any, _command: str) -> str:
    """The parser knows choices and limits of whole numbers; other values are text that a request's model checks."""
    before, one_of, after = error.message.partition("is not one of")
    found, choices = QUOTED.findall(before), QUOTED.findall(after)
    place = _parameter(error.param)
    if not one_of or not choices:
        least = getattr(error.param, "min", None)
        return f"{place}: expected {WHOLE_NUMBER}{'' if least is None else f', {least} or more'}"
    word = found[0] if found else ""
    return f"{place}: expected {listed(choices)}, found {shown(word)}{did_you_mean(word, choices)}"


def _of_no_command(error: Any, command: str) -> str:
    return f"{_place(command)}expected a command, {listed(_commands(error.ctx))}, found none"


def _of_command(error: Any, command: str) -> str:
    known = _commands(getattr(error, "ctx", None))
    if known and "No such command" in error.message:
        word = (QUOTED.findall(error.message) or [""])[0]
        return f"{_place(f'{command} {plain(word)}'.strip())}expected {listed(known)}{did_you_mean(word, known)}"
    surplus = re.search(r"unexpected extra arguments?(?:\(s\))? \((.*)\)", error.message, re.DOTALL)
    return f"{_place(command)}expected no further argument, found {plain(surplus[1]) if surplus else 'one'}"


WORDS = {
    "NoSuchOption": _of_option,
    "BadOptionUsage": _of_option_value,
    "MissingParameter": _of_missing,
    "BadParameter": _of_value,
    "NoArgsIsHelpError": _of_no_command,
}


def _place(command: str) -> str:
    return f"{command}: " if command else ""


def _parameter(parameter: Any) -> str:
    """A parameter as the command line has it: --format, or ID."""
    if parameter is None:
        return "the command"
    named = max(parameter.opts, key=len)
    return named if named.startswith("-") else str(parameter.metavar or named.upper())


def _options(context: Any) -> Iterable[str]:
    return [option for each in context.command.get_params(context) for option in each.opts if option.startswith("-")]


def _commands(context: Any) -> list[str]:
    return list(getattr(context.command, "commands", ())) if context else []
