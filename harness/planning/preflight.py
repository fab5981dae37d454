"""What a run needs of this machine, tried before the run is made: better one line now than a run without a verdict."""

from __future__ import annotations

import shutil

from harness.model import EnvironmentFailure
from harness.model.hosts import HostKind
from nodes.hosts.sandbox import Privilege, probe

INSTALL_JAVA = "as root: apt-get install -y openjdk-17-jre-headless"


def preflight(hosts: HostKind) -> None:
    """Raises EnvironmentFailure where such hosts cannot be made, or Spark will have no Java to judge with."""
    if hosts == "netns":
        try:
            probe(Privilege.detect())
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{error} (or use --hosts local, which makes none)") from error
    if not shutil.which("java"):
        raise EnvironmentFailure(f"judging on Spark needs Java: no java on the path; {INSTALL_JAVA}")
