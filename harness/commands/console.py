"""What a command says: results on standard output, what it is doing on standard error, one line for what went wrong.

On a terminal what is being done is one moving line; in a pipe or a file it is a line each. With `--format json`
standard output holds one JSON object a line and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function to tell what is being done now; each telling shows the time since the command began."""
    console = Console(stderr=True, highlight=False)
    began = time.monotonic()
    if not console.is_terminal:
        yield lambda text: print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)
        return
    with console.status("starting") as status:

        def tell(text: str) -> None:
            console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}", markup=True)
            status.update(text)

        yield tell


def print_json(value: dict[str, Any]) -> None:
    """One JSON object on a line of standard output."""
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_error(message: str) -> None:
    """One line on standard error."""
    print(f"splitbrain: {message}", file=sys.stderr, flush=True)
