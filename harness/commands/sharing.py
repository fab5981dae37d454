"""`splitbrain bundle` and `import`: a run as one archive for a colleague, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.arguments import RunArgument, run_path
from harness.commands.options import STORE, StoreOption, examples, prints
from harness.commands.output.console import Output, print_json
from results.store import RunDirectory


@prints()
def bundle(
    output: Output,
    run: RunArgument,
    target: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The archive; RUN.splitbrain.tar.gz by default.", metavar="FILE"),
    ] = None,
    store: StoreOption = STORE,
) -> None:
    """Write a run as one archive with what judging needs, without paths of this machine or names of users."""
    from harness.sharing.bundle import write_bundle
    from harness.sharing.contents import SUFFIX

    directory = RunDirectory(run_path(run, store).absolute())
    path = target or Path(f"{directory.name}{SUFFIX}")
    size = write_bundle(directory, path)
    if output.is_json:
        print_json({"archive": str(path), "bytes": size})
    else:
        print(f"{path}: {size / 2**20:.1f} MiB\nCheck it on another machine: splitbrain import {path.name}")


@prints()
def import_(
    output: Output,
    archive: Annotated[Path, typer.Argument(help="An archive that `splitbrain bundle` has written.")],
    store: StoreOption = STORE,
) -> None:
    """Read an archive of a run into the store. Nothing in it is trusted; `splitbrain check` judges it again."""
    from harness.sharing.importing import import_bundle

    run = import_bundle(archive, store)
    if output.is_json:
        print_json({"run": str(run.path)})
    else:
        print(f"{run.path}\nCheck it: splitbrain check {run.path}")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("bundle", epilog=examples("splitbrain bundle latest"))(bundle)
    app.command("import", epilog=examples("splitbrain import run.splitbrain.tar.gz"))(import_)
