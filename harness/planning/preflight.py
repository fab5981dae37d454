"""Checks what a run needs of this machine, before the run is created."""

from __future__ import annotations

import shutil

from harness.model import EnvironmentFailure
from nodes.hosts.sandbox import Privilege, probe

INSTALL_JAVA = "as root: apt-get install -y openjdk-17-jre-headless"


def preflight(hosts: str) -> None:
    """Raise EnvironmentFailure where hosts of this kind cannot be created, or Java for Spark is missing."""
    if hosts == "netns":
        try:
            probe(Privilege.detect())
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{error} (or use --hosts local)") from error
    if not shutil.which("java"):
        raise EnvironmentFailure(f"the checks run on Spark, which needs Java: no java on the path; {INSTALL_JAVA}")
