"""The parser has one command or all of them, and a start imports no more than it needs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import typer

from harness.commands.main import MODULE_OF, application
from harness.model.errors import EXIT_VALID
from tests.support.command import splitbrain


def names(command: str | None) -> set[str]:
    parser: Any = typer.main.get_command(application(command))
    return set(parser.commands)


def test_table_of_modules_has_every_command() -> None:
    assert names(None) == set(MODULE_OF)
    assert names("comparr") == set(MODULE_OF), "an unknown command is answered with all known ones"


@pytest.mark.parametrize("command", MODULE_OF)
def test_parser_of_a_command_has_those_of_its_module(command: str) -> None:
    assert names(command) == {each for each, module in MODULE_OF.items() if module == MODULE_OF[command]}


def test_help_before_a_command_is_that_of_all() -> None:
    result = splitbrain("--help", "run")
    assert result.code == EXIT_VALID
    assert {line.split()[0] for line in result.out.splitlines() if line.startswith("  ")} >= set(MODULE_OF)


@pytest.mark.parametrize("command", ["plugins", "compare", "run"])
def test_start_of_a_command_imports_neither_tables_nor_statistics(command: str) -> None:
    code = f"import sys; from harness.commands.main import application; application({command!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) & {"pandas", "pyarrow", "pyspark", "scipy", "harness.commands.doctor"} == set()
