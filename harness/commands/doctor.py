"""What works on this machine, what does not, and the mend: each capability is tried, not guessed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tabulate import tabulate

from harness.model import EnvironmentFailure
from harness.planning.preflight import INSTALL_JAVA
from nodes.hosts.sandbox import INSTALL_TOOLS, TOOLS, Privilege, missing_tools, probe
from nodes.kafka.artifacts import Library

JAVA_NEEDED = 17


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that was tried. needed says that nothing runs without it."""

    name: str
    works: bool
    needed: bool
    said: str
    mend: str


def examine() -> list[Capability]:
    """Try everything; takes about a second."""
    tried: list[Callable[[], Capability]] = [_python, _sandbox, _java, _maven, _releases, _memory]
    return [_network_tools(), *(examine_one() for examine_one in tried)]


def table(capabilities: Sequence[Capability]) -> str:
    """The findings for a terminal."""
    rows = [(c.name, _word(c), c.said, "" if c.works else c.mend) for c in capabilities]
    return tabulate(rows, headers=("what", "works", "found", "heal_links"), maxcolwidths=[24, 8, 60, 50])


def _word(capability: Capability) -> str:
    if capability.works:
        return "yes"
    return "NO" if capability.needed else "no"


def _python() -> Capability:
    version = ".".join(map(str, sys.version_info[:3]))
    return Capability("Python", sys.version_info >= (3, 11), True, version, "install Python 3.11 or later")


def _network_tools() -> Capability:
    missing = missing_tools()
    said = f"missing: {', '.join(missing)}" if missing else ", ".join(TOOLS)
    return Capability("namespace tools", not missing, True, said, INSTALL_TOOLS)


def _sandbox() -> Capability:
    privilege = Privilege.detect()
    mend = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or run as root"
    try:
        probe(privilege)
    except EnvironmentFailure as error:
        return Capability("namespace hosts", False, True, str(error), mend)
    return Capability("namespace hosts", True, True, f"bridge and nft table made by right of {privilege.value}", "")


def _java() -> Capability:
    if not shutil.which("java"):
        return Capability("Java (Spark, Kafka)", False, True, "no java on the path", INSTALL_JAVA)
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', said)
    works = match is not None and int(match.group(1)) >= JAVA_NEEDED
    return Capability("Java (Spark, Kafka)", works, True, (said.splitlines() or ["it said nothing"])[0], INSTALL_JAVA)


def _maven() -> Capability:
    found = shutil.which("mvn")
    mend = "as root: apt-get install -y maven; or set KAFKA_HOME"
    return Capability("Maven (fetches Kafka)", bool(found), False, found or "no mvn on the path", mend)


def _releases() -> Capability:
    try:
        versions = [str(release.version) for release in Library.default().installed()]
    except EnvironmentFailure as error:
        return Capability("Kafka releases", False, False, str(error), "correct KAFKA_HOME, or unset it")
    return Capability(
        "Kafka releases", bool(versions), False, ", ".join(versions) or "none", "splitbrain kafka install newest"
    )


def _memory() -> Capability:
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") / 2**30
    said = f"{gibibytes:.1f} GiB free"
    return Capability("memory", gibibytes >= 2, False, said, "free 2 GiB: five Kafka nodes and Spark need them")
