"""The command line: `splitbrain COMMAND …`. Each command is a thin layer over one module of this package.

Exit codes are Jepsen's: 0 valid, 1 invalid, 2 unknown, 254 usage, 255 internal error. An error that we foresaw is
one line on standard error; one that we did not is a traceback, and exit 255.

A command imports what carries it out, so that none waits for the libraries of the others: `--help` answers at once, and
`check` has Java started before the rest is read.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from tabulate import tabulate

from harness.commands import doctor as doctoring
from harness.commands.console import print_error, print_json, progress
from harness.commands.faults import app as faults_app
from harness.commands.kafka import app as kafka_app
from harness.commands.options import (
    STORE,
    DiskMibOption,
    DiskOption,
    ExportFormat,
    FeatureOption,
    Format,
    FormatOption,
    HostKinds,
    HostsOption,
    InventoryOption,
    MasterOption,
    SeedOption,
    Semantics,
    SemanticsOption,
    StoreOption,
    absolute,
)
from harness.model import BadInput, SplitbrainError, Verdict
from harness.model.errors import EXIT_INTERNAL, EXIT_INVALID, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID
from harness.planning.plan import read_request, request
from harness.recovery.heal import heal_store
from harness.scenarios import CATALOGUE, scenario
from harness.scenarios.description import describe
from nemesis.registry import BY_NAME
from nodes.hosts.sandbox import widen_path
from results.run_verdict import RunVerdict, read_verdict
from results.store import RunDirectory, runs
from results.summary import summary

if TYPE_CHECKING:
    from harness.judging.imported import FileVerdict, HeldTo

EXIT_OF = {Verdict.VALID: EXIT_VALID, Verdict.INVALID: EXIT_INVALID, Verdict.UNKNOWN: EXIT_UNKNOWN}
INTERRUPTED = 130


app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, help=__doc__.splitlines()[0])
app.add_typer(kafka_app, name="kafka")
app.add_typer(faults_app, name="faults")


@app.command()
def scenarios(what: str = typer.Argument("list"), identifier: str = typer.Argument("")) -> None:
    """List the scenarios, or `show ID`."""
    if what == "show":
        print(describe(scenario(identifier)))
    elif what == "list":
        rows = [(s.id, s.title, str(s.source)) for s in CATALOGUE.values()]
        print(tabulate(rows, headers=("id", "title", "source"), maxcolwidths=70))
    else:
        raise BadInput(f"scenarios {what!r}: expected list, or show ID")


@app.command("reproduce")
def reproduce_command(
    identifiers: Annotated[list[str], typer.Argument(metavar="ID…", help="Scenarios, e.g. PV-01.")],
    system: Annotated[str, typer.Option(help="reference, kafka or kafka:VERSION.")] = "reference",
    side: Annotated[str, typer.Option(help="bad, good or both.")] = "both",
    times: Annotated[int, typer.Option(min=1, max=1000, help="How often to play each side.")] = 1,
    switch: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for every node of both sides.")] = None,
    feature: FeatureOption = None,
    hosts: HostsOption = HostKinds.NETNS,
    inventory: InventoryOption = None,
    seed: SeedOption = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Play scenarios and see whether the anomaly shows on the bad side, and only there."""
    from harness.running.reproduce import Reproduction, new_seed, reproduce, sides_of

    wanted = [scenario(identifier) for identifier in identifiers]
    run_verdicts = []
    for each in wanted:
        from_seed = new_seed() if seed is None else seed
        what = Reproduction(
            each,
            system,
            tuple(sides_of(side)),
            times,
            from_seed,
            switches=_switches(switch or []),
            features=_features(feature or []),
            hosts=hosts.value,
            inventory=absolute(inventory),
        )
        with progress() as report:
            directory, run_verdict = reproduce(what, store, master, report)
        _show(run_verdict, directory, output)
        run_verdicts.append(run_verdict)
    raise typer.Exit(_exit_code(run_verdicts))


@app.command("run")
def run_command(
    plan: Annotated[Path | None, typer.Option(help="A plan in TOML; flags win over it.")] = None,
    system: Annotated[str | None, typer.Option(help="reference, kafka or kafka:VERSION.")] = None,
    workload: Annotated[str | None, typer.Option(help="idle, register; on Kafka log, transactions.")] = None,
    faults: Annotated[str | None, typer.Option(help=f"{', '.join(BY_NAME)}, or none; several with commas.")] = None,
    weight: Annotated[list[str] | None, typer.Option(help="FAULT=NUMBER: how likely; 1 if not given.")] = None,
    at_once: Annotated[int | None, typer.Option(help="How many different faults may be in place together.")] = None,
    floor: Annotated[int | None, typer.Option(help="How many nodes kills and pauses leave running.")] = None,
    hosts: HostsOption = HostKinds.NETNS,
    inventory: InventoryOption = None,
    disk_mib: DiskMibOption = None,
    memory_mib: Annotated[
        int | None, typer.Option(help="The most memory a node's server may use, in MiB (root).")
    ] = None,
    cpus: Annotated[
        float | None, typer.Option(help="The most processors it may use, 0.5 for half of one (root).")
    ] = None,
    disk: DiskOption = None,
    nodes: Annotated[int | None, typer.Option(help="How many nodes, all of them voters.")] = None,
    voters: Annotated[int | None, typer.Option(help="How many vote at first, in a quorum whose voters change.")] = None,
    layout: Annotated[str | None, typer.Option(help="controllers, or combined with brokers (Kafka).")] = None,
    switch: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for every node; repeat it.")] = None,
    feature: FeatureOption = None,
    option: Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the workload; repeat it.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds of faults and load.")] = None,
    interval: Annotated[float | None, typer.Option(help="Mean seconds between faults.")] = None,
    rate: Annotated[float | None, typer.Option(help="Operations a second.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Client processes.")] = None,
    name: Annotated[str | None, typer.Option(help="What to call the run.")] = None,
    seed: SeedOption = None,
    store: StoreOption = STORE,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Run a workload under a schedule of faults, and judge it."""
    from harness.running.run import run_request

    given: dict[str, Any] = {
        "system": system,
        "workload": workload,
        "faults": faults.split(",") if faults is not None else None,
        "weights": _pairs(weight, "--weight", "partition=2") if weight else None,
        "at_once": at_once,
        "floor": floor,
        "hosts": hosts.value,
        "inventory": absolute(inventory),
        "disk": disk.value if disk else None,
        "disk_mib": disk_mib,
        "memory_mib": memory_mib,
        "cpus": cpus,
        "nodes": nodes,
        "voters": voters,
        "layout": layout,
        "switches": _switches(switch) if switch else None,
        "features": _features(feature) if feature else None,
        "workload_options": _pairs(option, "--option", "acks=1") if option else None,
        "time_limit_seconds": time_limit,
        "interval_seconds": interval,
        "rate_per_second": rate,
        "concurrency": concurrency,
        "name": name,
        "seed": seed,
    }
    flags = {key: value for key, value in given.items() if value is not None}
    asked = read_request(plan, flags) if plan else request(flags)
    with progress() as report:
        directory, run_verdict = run_request(asked, store, master, report)
    _show(run_verdict, directory, output)
    raise typer.Exit(_exit_code([run_verdict]))


@app.command()
def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Run directories; with --model, histories.")],
    model: Annotated[str | None, typer.Option(help="What histories from elsewhere are held to, e.g. register.")] = None,
    semantics: SemanticsOption = None,
    initial: Annotated[
        str | None, typer.Option(help="What the model holds at first, as JSON; nil if not given.")
    ] = None,
    skip_malformed: Annotated[bool, typer.Option("--skip-malformed", help="Count malformed rows and go on.")] = False,
    master: MasterOption = None,
    output: FormatOption = Format.TEXT,
) -> None:
    """Judge stored runs again, or histories from elsewhere by a model."""
    from harness.judging.imported import HeldTo
    from harness.judging.stored import check_paths

    if model is not None:
        held_to = HeldTo(model, (semantics or Semantics.STRICT).value, initial, skip_malformed)
        raise typer.Exit(_check_files(paths, held_to, master, output))
    if semantics or initial is not None or skip_malformed:
        raise BadInput("--semantics, --initial and --skip-malformed: expected --model with them, e.g. --model register")
    with progress() as report:
        judged = list(check_paths(paths, master, report))
    for directory, run_verdict in judged:
        _show(run_verdict, directory, output)
    raise typer.Exit(_exit_code([run_verdict for _, run_verdict in judged]))


def _check_files(paths: list[Path], held_to: HeldTo, master: str | None, output: Format) -> int:
    from harness.judging.imported import check_files

    with progress() as report:
        verdicts = list(check_files(paths, held_to, master, report))
    for verdict in verdicts:
        if output is Format.JSON:
            print_json(verdict.as_json())
        else:
            print(verdict.as_text())
    return _exit_code(verdicts)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    output: Annotated[ExportFormat, typer.Option("--format", help="edn or jsonl.")] = ExportFormat.EDN,
    independent: Annotated[bool, typer.Option("--independent", help="Values as [key value], Jepsen's way.")] = False,
) -> None:
    """Print a run's history for other checkers, an operation a line."""
    from harness.histories.exporting import exported

    for line in exported(run, output is ExportFormat.EDN, independent):
        print(line)


@app.command()
def report(path: Annotated[Path, typer.Argument(metavar="RUN", help="A judged run.")]) -> None:
    """Render a run's report again."""
    from harness.judging.stored import rewrite_report

    print(rewrite_report(path))


@app.command("runs")
def runs_command(store: StoreOption = STORE, output: FormatOption = Format.TEXT) -> None:
    """List the stored runs."""
    listed = [_row(run) for run in runs(store)]
    if output is Format.JSON:
        for row in listed:
            print_json(row)
    else:
        print(tabulate([row.values() for row in listed], headers=("run", "kind", "status", "verdict")))


@app.command()
def heal(store: StoreOption = STORE) -> None:
    """Undo what runs left behind whose controller is gone; harmless when there is nothing."""
    for line in heal_store(store):
        print(line)


@app.command()
def doctor(output: FormatOption = Format.TEXT) -> None:
    """Say what works on this machine, what does not, and the mend."""
    findings = doctoring.examine()
    if output is Format.JSON:
        for finding in findings:
            print_json(asdict(finding))
    else:
        print(doctoring.table(findings))
    raise typer.Exit(EXIT_VALID if all(finding.works for finding in findings if finding.needed) else EXIT_INVALID)


def main() -> None:
    """The console command's entry point."""
    widen_path()
    sys.exit(_exit_code_of(typer.main.get_command(app)))


def _exit_code_of(command: Any) -> int:
    """Run the command and print what went wrong with it, if anything did."""
    try:
        code: int = command.main(prog_name="splitbrain", standalone_mode=False) or EXIT_VALID
    except SplitbrainError as error:
        print_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        return EXIT_VALID
    except OSError as error:
        print_error(f"{error.filename or 'the machine'}: {error.strerror or error}")
        return EXIT_INTERNAL
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: the exit code must not be one that means a verdict
        return _unforeseen(error)
    if code == INTERRUPTED:  # by an exception or by this code, as releases of typer have it
        print_error("interrupted; what was recorded is kept")
    return code


def _unforeseen(error: Exception) -> int:
    """Typer's own complaints about usage, told from all else by format_message: typer keeps their base private."""
    if hasattr(error, "format_message"):
        print_error(f"{error.format_message()} (see splitbrain --help)")
        return EXIT_USAGE
    traceback.print_exception(error)
    return EXIT_INTERNAL


def _show(run_verdict: RunVerdict, directory: RunDirectory, output: Format) -> None:
    if output is Format.JSON:
        shown = asdict(run_verdict) | {"verdict": run_verdict.verdict.value, "run": str(directory.path)}
        print_json(shown)
        return
    print(summary(run_verdict))
    print(f"\nReport: {directory.report}")


def _exit_code(run_verdicts: Sequence[RunVerdict | FileVerdict]) -> int:
    """Invalid if any is, else unknown if any is."""
    verdicts = {run_verdict.verdict for run_verdict in run_verdicts}
    worst = next((v for v in (Verdict.INVALID, Verdict.UNKNOWN) if v in verdicts), Verdict.VALID)
    return EXIT_OF[worst]


def _pairs(given: list[str], flag: str, example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise BadInput(f"{flag} {name!r}: expected NAME=VALUE, e.g. {example}")
    return {name: value for name, _, value in pairs}


def _switches(given: list[str]) -> dict[str, str]:
    return _pairs(given, "--switch", "reference.pre_vote=false")


def _features(given: list[str]) -> dict[str, str]:
    return _pairs(given, "--feature", "transaction.version=1")


def _row(run: RunDirectory) -> dict[str, str]:
    verdict = read_verdict(run.verdict).verdict.value if run.verdict.exists() else "-"
    return {"run": run.name, "kind": run.kind, "status": run.status, "verdict": verdict}
