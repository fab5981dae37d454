"""`splitbrain serve` as a process: its address, its end, its refusals; and its pages in a browser, if there is one."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.model.errors import EXIT_USAGE
from tests.support.command import COMMAND, environment, splitbrain
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, register_plan

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
HOSTILE = "<script>document.title = 'ran'</script>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose case and report are hostile."""
    runs = tmp_path_factory.mktemp("served") / "runs"
    run = judged_run(runs, "run", register_plan(name=HOSTILE), failed_verdict(), BEGIN)
    run.report.write_text(f"<title>report</title>{HOSTILE}")
    return runs


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server and its address; Ctrl-C ends it in order."""
    argv = [COMMAND, "serve", "--store", str(store), "--port", "0", "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as server:
        assert server.stdout
        try:
            yield server, json.loads(server.stdout.readline())["url"]
        finally:
            server.send_signal(signal.SIGINT)
            errors = server.communicate(timeout=30)[1]
        assert "Traceback" not in errors
        assert server.returncode in (0, 130)


def test_first_page_is_served_on_loopback_only(served: tuple[subprocess.Popen[str], str]) -> None:
    server, url = served
    with urllib.request.urlopen(url, timeout=30) as response:
        assert b"The newest runs that did not pass" in response.read()
    port = int(url.rstrip("/").rpartition(":")[2])
    lines = Path(f"/proc/{server.pid}/net/tcp").read_text().splitlines()[1:]
    listening = {address for line in lines if (address := line.split()[1]).endswith(f":{port:04X}")}
    assert listening <= {f"0100007F:{port:04X}"}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("path", ["", "runs", "trends", "reports/{run}", "runs/{run}"])
def test_no_script_of_a_run_is_executed_in_a_browser(
    served: tuple[subprocess.Popen[str], str], store: Path, path: str
) -> None:
    (run,) = (each.name for each in store.glob("2*"))
    argv = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", served[1] + path.format(run=run)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert "<title>ran</title>" not in result.stdout
    assert "<title>" in result.stdout


def test_port_in_use_is_one_line(store: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = splitbrain("serve", "--store", store, "--port", taken.getsockname()[1])
    assert result.code == EXIT_USAGE
    assert "expected a port that is free: address already in use" in result.messages[-1].lower()


def test_store_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = splitbrain("serve", "--store", tmp_path / "nowhere")
    assert result.code == EXIT_USAGE
    assert len(result.messages) == 1
