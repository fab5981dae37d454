"""Draws the quorum's state machine into docs/architecture.md, from the tables that the reference core executes.

python docs/diagram.py            rewrite the diagrams
python docs/diagram.py --check    exit 1 if they are not what the tables say
"""

from __future__ import annotations

import re
import sys
from itertools import groupby
from pathlib import Path

from harness.model.quorum_states import KIP_595, KIP_996, TransitionTable

PAGE = Path(__file__).parent / "architecture.md"
EPOCH_WORDS = {"same": "", "next": " (epoch + 1)", "higher": " (higher epoch)", "same or higher": ""}


def mermaid(table: TransitionTable) -> str:
    """One arrow for each pair of states, labelled with every cause that leads from one to the other."""
    rows = sorted(table.rows, key=lambda row: (row.source.value, row.target.value))
    lines = ["```mermaid", "stateDiagram-v2", "    direction LR"]
    for (source, target), group in groupby(rows, key=lambda row: (row.source.value, row.target.value)):
        causes = " <br> ".join(f"{row.cause.value}{EPOCH_WORDS[row.epoch]}" for row in group)
        lines.append(f"    {source} --> {target}: {causes}")
    return "\n".join([*lines, "```"])


def drawn(page: str) -> str:
    """The page with each diagram between its markers made anew."""
    for name, table in (("kip-595", KIP_595), ("kip-996", KIP_996)):
        marker = f"<!-- {name} -->"
        block = f"{marker}\n{mermaid(table)}\n{marker}"
        page = re.sub(f"{marker}.*?{marker}", lambda _match, block=block: block, page, flags=re.DOTALL)
    return page


def main() -> None:
    """Rewrite or check the page."""
    before = PAGE.read_text()
    after = drawn(before)
    if "--check" in sys.argv:
        sys.exit(before != after)
    PAGE.write_text(after)


if __name__ == "__main__":
    main()
