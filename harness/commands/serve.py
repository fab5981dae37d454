"""`splitbrain serve`: the nights, runs and trends of a store as web pages on this machine."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from typing import Annotated

import typer

from harness.commands.options import STORE, KnownOption, StoreOption, examples, prints
from harness.commands.output.console import Output, print_json
from harness.model.errors import BadInput, reason_of
from results.store import require_store

PORT = 8270


@prints()
def serve(
    output: Output,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on the loopback interface; 0 for a free one.")
    ] = PORT,
    known: KnownOption = None,
    store: StoreOption = STORE,
) -> None:
    """Show nights, runs and trends as web pages, on the loopback interface only, until Ctrl-C."""
    from waitress.server import create_server

    from harness.judging.known import read_known
    from harness.serving.application import application

    require_store(store)
    app = application(store, read_known(known, datetime.now(UTC).date()))
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise BadInput(f"--port {port}: expected a port that is free: {reason_of(error)}") from error
    server = create_server(app, sockets=[listening], ident=None)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    print_json({"url": url}) if output.is_json else print(f"{url} (Ctrl-C ends it)", flush=True)
    try:
        server.run()
    finally:
        server.close()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve", epilog=examples("splitbrain serve", "splitbrain serve --port 0"))(serve)
