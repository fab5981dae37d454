"""`splitbrain elect-leaders`: request preferred, unclean or designated elections (KAFKA-20098)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.commands.options import BootstrapOption, CommandConfigOption, examples, prints
from harness.commands.output.bar import bar
from harness.commands.output.console import Output
from harness.commands.output.elections import print_outcomes
from harness.unclean_recovery.options import PARTITION_MAX, ElectionType, election_options


@prints(progress=True)
def elect_leaders(
    output: Output,
    bootstrap_server: BootstrapOption,
    election_type: Annotated[
        ElectionType,
        typer.Option(
            case_sensitive=False,
            help="PREFERRED: the first replica of the assignment. UNCLEAN: any live replica, where there is no leader. "
            "DESIGNATED: the replica that the file names, where there is no leader.",
        ),
    ],
    path_to_json_file: Annotated[
        Path | None,
        typer.Option(help="JSON file with partitions and, for DESIGNATED, their leaders.", metavar="FILE"),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of a single partition.")] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, max=PARTITION_MAX, help="The single partition.", metavar="N")
    ] = None,
    all_topic_partitions: Annotated[
        bool, typer.Option("--all-topic-partitions", help="Every partition of the cluster.")
    ] = False,
    command_config: CommandConfigOption = None,
) -> None:
    """Elect leaders of partitions. An UNCLEAN or DESIGNATED election may lose records.

    Exactly one of --path-to-json-file, --topic with --partition, and --all-topic-partitions.
    """
    options = election_options(election_type, path_to_json_file, topic, partition, all_topic_partitions)
    import asyncio

    from harness.unclean_recovery.client_config import settings_of
    from harness.unclean_recovery.elect import elect
    from harness.unclean_recovery.files import read_designations
    from harness.unclean_recovery.options import addresses_of

    addresses, settings = addresses_of(bootstrap_server), settings_of(command_config)
    is_designated = options.kind is ElectionType.DESIGNATED
    listing = read_designations(options.listed, is_designated) if options.listed else None
    with bar(output.verbosity) as watch:
        report = asyncio.run(elect(options, listing, addresses, settings, watch))
    print_outcomes(report, output, lists_all=not all_topic_partitions)
    raise typer.Exit(report.exit_code)


def register(app: typer.Typer) -> None:
    """Add the command."""
    to = "splitbrain elect-leaders --bootstrap-server HOST:9092 --election-type"
    commands = (
        f"{to} DESIGNATED --path-to-json-file leaders.json",
        f"{to} UNCLEAN --topic orders --partition 3",
        f"{to} PREFERRED --all-topic-partitions",
    )
    app.command("elect-leaders", epilog=examples(*commands))(elect_leaders)
