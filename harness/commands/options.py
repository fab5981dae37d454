"""The command line's options that several commands share, so that each is called and explained the same everywhere."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer


class Format(Enum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


class HostKinds(Enum):
    """Where nodes live."""

    NETNS = "netns"
    LOCAL = "local"
    DOCKER = "docker"
    SSH = "ssh"


class Semantics(Enum):
    """What a nil read and a failed compare-and-set say: observations, or nothing."""

    STRICT = "strict"
    KNOSSOS = "knossos"


class ExportFormat(Enum):
    """How a history is written for others."""

    EDN = "edn"
    JSONL = "jsonl"


SemanticsOption = Annotated[
    Semantics | None, typer.Option(help="What a nil read and a failed cas say; strict if not given.")
]
HostsOption = Annotated[HostKinds, typer.Option(help="Where nodes live.")]
InventoryOption = Annotated[Path | None, typer.Option(help="The machines of --hosts ssh, in TOML.")]
StoreOption = Annotated[Path, typer.Option(envvar="SPLITBRAIN_STORE", help="Where runs are kept.")]
FormatOption = Annotated[Format, typer.Option("--format", help="text, or one JSON object a line.")]
MasterOption = Annotated[str | None, typer.Option(help="A Spark master to judge on, e.g. spark://host:7077.")]
SeedOption = Annotated[int | None, typer.Option(min=0, help="Repeats every random choice; drawn if not given.")]
FeatureOption = Annotated[
    list[str] | None, typer.Option(help="NAME=LEVEL that Kafka is formatted with, e.g. transaction.version=1.")
]
STORE = Path("results/runs")


class DiskKinds(Enum):
    """What nodes keep their logs on."""

    DIRECTORY = "directory"
    TMPFS = "tmpfs"
    EXT4 = "ext4"
    XFS = "xfs"


DiskOption = Annotated[DiskKinds | None, typer.Option(help="What nodes keep their logs on.")]
DiskMibOption = Annotated[int | None, typer.Option(help="The size of a disk that is not a directory, in MiB.")]


def absolute(path: Path | None) -> str | None:
    """The path as plans keep it, so that a run can be repeated from anywhere."""
    return str(path.absolute()) if path else None
