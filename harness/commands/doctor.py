"""`splitbrain doctor`: checks prerequisites by trying each one, and shows how to fix what is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import tabulate
import typer

from harness.commands.options import examples, prints
from harness.commands.output.console import Output, print_json
from harness.commands.output.tables import print_table
from harness.model import EnvironmentFailure
from harness.model.errors import EXIT_INVALID, EXIT_VALID
from harness.planning.preflight import INSTALL_JAVA
from nodes.hosts.sandbox import INSTALL_TOOLS, TOOLS, Privilege, missing_tools, probe
from nodes.kafka.artifacts import Library
from nodes.simulation.compiled import NEEDS
from nodes.simulation.kafka.jars import JDK_PACKAGE

JAVA_NEEDED = 17
ENVIRONMENT, PACKAGES = Path(sys.prefix), Path(tabulate.__file__)
"""The virtual environment, and a package in it."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One prerequisite that was tried. needed: nothing runs without it. found: what was seen. fix: how to get it."""

    name: str
    works: bool
    needed: bool
    found: str
    fix: str


def examine() -> list[Capability]:
    """Try every prerequisite; takes about a second."""
    probes: list[Callable[[], Capability]] = [_python, _other_users, _sandbox, _java, _maven, _releases, _memory]
    probes += [javac, compiler]
    return [_network_tools(), *(examine_one() for examine_one in probes)]


def _word(capability: Capability) -> str:
    if capability.works:
        return "yes"
    return "NO" if capability.needed else "no"


def _python() -> Capability:
    version = ".".join(map(str, sys.version_info[:3]))
    return Capability("Python", sys.version_info >= (3, 11), True, version, "install Python 3.11 or later")


def _other_users() -> Capability:
    """Whether users other than this environment's owner can run it; the kernel decides by the mode of each folder."""
    closed = next(filter(None, map(closed_to_others, (Path(sys.executable).resolve(), ENVIRONMENT, PACKAGES))), None)
    found = f"closed to them: {closed}" if closed else "can use this environment"
    fix = "make the environment outside of that folder, with a Python outside of it, e.g. /usr/bin/python3 -m venv"
    return Capability("other users", closed is None, False, found, fix)


def closed_to_others(path: Path) -> Path | None:
    """The outermost part of a path that users who do not own it cannot enter or read; None if they can read it all."""
    for each in (*reversed(path.parents), path):
        needed = stat.S_IXOTH if each.is_dir() else stat.S_IROTH
        if each.stat().st_mode & needed != needed:
            return each
    return None


def _network_tools() -> Capability:
    missing = missing_tools()
    found = f"missing: {', '.join(missing)}" if missing else ", ".join(TOOLS)
    return Capability("namespace tools", not missing, True, found, INSTALL_TOOLS)


def _sandbox() -> Capability:
    privilege = Privilege.detect()
    fix = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root"
    try:
        probe(privilege)
    except EnvironmentFailure as error:
        return Capability("namespace hosts", False, True, str(error), fix)
    return Capability("namespace hosts", True, True, f"bridge and nft table made as {privilege.value}", "")


def _java() -> Capability:
    if not shutil.which("java"):
        return Capability("Java (Spark, Kafka)", False, True, "no java on the path", INSTALL_JAVA)
    found = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', found)
    works = match is not None and int(match.group(1)) >= JAVA_NEEDED
    return Capability("Java (Spark, Kafka)", works, True, (found.splitlines() or ["no output"])[0], INSTALL_JAVA)


def _maven() -> Capability:
    found = shutil.which("mvn")
    fix = "as root: apt-get install -y maven; or set KAFKA_HOME"
    return Capability("Maven (fetches Kafka)", bool(found), False, found or "no mvn on the path", fix)


def _releases() -> Capability:
    try:
        versions = [str(release.version) for release in Library.default().installed()]
    except EnvironmentFailure as error:
        return Capability("Kafka releases", False, False, str(error), "correct KAFKA_HOME, or unset it")
    return Capability(
        "Kafka releases", bool(versions), False, ", ".join(versions) or "none", "splitbrain kafka install newest"
    )


def javac() -> Capability:
    """Whether Kafka can be simulated: its driver is compiled on first use."""
    found = shutil.which("javac")
    fix = f"as root: apt-get install -y {JDK_PACKAGE}"
    return Capability("javac (simulates Kafka)", bool(found), False, found or "no javac on the path", fix)


def compiler() -> Capability:
    """Whether the reference system can be compiled (nodes.simulation.compiled)."""
    name, has_mypy = os.environ.get("CC", "gcc"), importlib.util.find_spec("mypyc") is not None
    path = shutil.which(name)
    found = f"{path or f'no {name} on the path'}, {'mypy' if has_mypy else 'no mypy'}"
    return Capability("gcc and mypy (simulate --compiled)", bool(path) and has_mypy, False, found, NEEDS)


def _memory() -> Capability:
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 2**30
    found = f"{gibibytes:.1f} GiB free"
    return Capability("memory", gibibytes >= 2, False, found, "free 2 GiB: five Kafka nodes and Spark need them")


@prints()
def doctor(output: Output) -> None:
    """Check prerequisites and show how to fix what is missing."""
    capabilities = examine()
    if output.is_json:
        for capability in capabilities:
            print_json(asdict(capability))
    else:
        rows = [(c.name, _word(c), c.found, "" if c.works else c.fix) for c in capabilities]
        print_table(("what", "works", "found", "fix"), rows)
    raise typer.Exit(EXIT_VALID if all(each.works for each in capabilities if each.needed) else EXIT_INVALID)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=examples("splitbrain doctor"))(doctor)
