"""`splitbrain unclean-recovery`: leaders for partitions that have none, with the least loss (KAFKA-20098)."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harness.commands.options import BootstrapOption, CommandConfigOption, examples, prints
from harness.commands.output.bar import bar
from harness.commands.output.console import Output, print_json
from harness.commands.output.elections import print_outcomes, print_replicas
from harness.model.plurals import counted
from harness.unclean_recovery.options import ELECTION_ATTEMPTS, MILLISECONDS_MAX, RECOVERY_DURATION_MS, recovery_options


@prints(progress=True)
def unclean_recovery(
    output: Output,
    bootstrap_server: BootstrapOption,
    path_to_json_file: Annotated[
        Path | None, typer.Option(help="JSON file with the partitions to recover.", metavar="FILE")
    ] = None,
    all_offline_partitions: Annotated[
        bool, typer.Option("--all-offline-partitions", help="Recover all partitions that have no leader.")
    ] = False,
    show_replica_info: Annotated[
        bool, typer.Option("--show-replica-info", help="Print a table of the partitions' replicas and their logs.")
    ] = False,
    manual_recovery_output_file: Annotated[
        Path | None,
        typer.Option(help="New file for the chosen leaders, which elect-leaders reads; elect none.", metavar="FILE"),
    ] = None,
    automated_recovery: Annotated[
        bool, typer.Option("--automated-recovery", help="Elect the chosen leaders by designated elections.")
    ] = False,
    recovery_duration_ms: Annotated[
        int,
        typer.Option(min=1, max=MILLISECONDS_MAX, help="How long a broker may take to report its logs.", metavar="MS"),
    ] = RECOVERY_DURATION_MS,
    recovery_election_attempts: Annotated[
        int, typer.Option(min=0, max=1000, help="Retries of elections after an error that passes.", metavar="N")
    ] = ELECTION_ATTEMPTS,
    command_config: CommandConfigOption = None,
) -> None:
    """Choose leaders for partitions that have none: the highest epoch, then the longest log. May lose records.

    Exactly one of --path-to-json-file and --all-offline-partitions; at least one of --show-replica-info,
    --manual-recovery-output-file and --automated-recovery, of which the last two exclude each other.
    """
    options = recovery_options(
        path_to_json_file=path_to_json_file,
        all_offline_partitions=all_offline_partitions,
        show_replica_info=show_replica_info,
        manual_recovery_output_file=manual_recovery_output_file,
        automated_recovery=automated_recovery,
        recovery_duration_ms=recovery_duration_ms,
        recovery_election_attempts=recovery_election_attempts,
    )
    import asyncio

    from harness.unclean_recovery.client_config import settings_of
    from harness.unclean_recovery.files import read_partitions, refuse_existing
    from harness.unclean_recovery.options import addresses_of
    from harness.unclean_recovery.recover import recover, write_choice

    addresses, settings = addresses_of(bootstrap_server), settings_of(command_config)
    listing = read_partitions(options.listed) if options.listed else None
    if options.output:
        refuse_existing(options.output)
    with bar(output.verbosity) as watch:
        report = asyncio.run(recover(options, listing, addresses, settings, watch))
    if options.shows_replicas:
        print_replicas(report, output)
    written = write_choice(report, options.output) if options.output and not report.is_interrupted else None
    print_outcomes(report, output)
    if written is not None and output.is_json:
        print_json({"kind": "file", "path": str(options.output), "partitions": written})
    elif written is not None:
        designated = ("--election-type", "DESIGNATED", "--path-to-json-file", str(options.output))
        elect = shlex.join(["splitbrain", "elect-leaders", "--bootstrap-server", bootstrap_server, *designated])
        print(f"{options.output}: {counted(written, 'partition')}\nElect these leaders with: {elect}")
    raise typer.Exit(report.exit_code)


def register(app: typer.Typer) -> None:
    """Add the command."""
    all_offline = "splitbrain unclean-recovery --bootstrap-server HOST:9092 --all-offline-partitions"
    commands = (
        f"{all_offline} --show-replica-info",
        f"{all_offline} --manual-recovery-output-file leaders.json",
        f"{all_offline} --automated-recovery",
    )
    app.command("unclean-recovery", epilog=examples(*commands))(unclean_recovery)
