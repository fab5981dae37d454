"""Options that several commands share and that are not part of a request (harness.planning.options has those)."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(Enum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


STORE = Path("results/runs")

StoreOption = Annotated[Path, typer.Option(envvar="SPLITBRAIN_STORE", help="Folder of the stored runs.")]
FormatOption = Annotated[Format, typer.Option("--format", help="text, or one JSON object per line.")]
MasterOption = Annotated[str | None, typer.Option(help="Spark master that runs the checks, e.g. spark://host:7077.")]
