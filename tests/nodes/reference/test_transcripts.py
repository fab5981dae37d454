"""What the core does, sentence by sentence of KIP-996 and KIP-595, as transcripts that a reviewer of the KIPs can read.

testdata has one file per section. A file is a list of blocks: comments, commands, a line `----`, and everything that
the nodes then did. A comment `# N: …` or `# N, M: …` names sentences of docs/kip-sentences.md; the line `reset` begins
with new nodes. The commands are in transcript_runner's docstring.

    pytest tests/nodes/reference/test_transcripts.py --rewrite    rewrites them; read the diff
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.nodes.reference.transcript_runner import Transcript

FILES = sorted((Path(__file__).parent / "testdata").glob("*.txt"))
SEPARATOR = "----\n"
RESET = "reset\n"


class Runner(Protocol):
    """Carries out commands."""

    def run(self, block: str) -> str:
        """Carry out the commands, one a line, and return what they printed."""


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """The comments, the commands and the expectation of each block; blank lines divide blocks."""
    for block in filter(None, (each.strip("\n") for each in text.split("\n\n"))):
        head, separator, expected = f"{block}\n".partition(SEPARATOR)
        lines = head.splitlines(keepends=True)
        comments = "".join(line for line in lines if line.startswith("#"))
        commands = "".join(line for line in lines if not line.startswith("#"))
        assert separator or not commands, f"commands without {SEPARATOR.strip()}: {commands}"
        yield comments, commands, expected


def replay(text: str, begin: Callable[[], Runner] = Transcript) -> str:
    """The text with the expectations that hold now; begin() is a system without a past."""
    transcript, replayed = begin(), []
    for comments, commands, _ in blocks(text):
        if commands.startswith(RESET):
            transcript = begin()
        printed = SEPARATOR + transcript.run(commands.removeprefix(RESET)) if commands else ""
        replayed.append(f"{comments}{commands}{printed}")
    return "\n".join(replayed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nodes_do_what_the_transcript_says(path: Path, request: pytest.FixtureRequest) -> None:
    replayed = replay(path.read_text())
    if request.config.getoption("--rewrite"):
        path.write_text(replayed)
        pytest.skip(f"rewrote {path.name}")
    assert replayed == path.read_text()


def test_every_block_of_commands_has_an_expectation() -> None:
    without = [path.name for path in FILES for _, head, expected in blocks(path.read_text()) if head and not expected]
    assert FILES
    assert without == []
