"""What a run needs of this machine, tried before the run is made: better one line now than a run without a verdict."""

from __future__ import annotations

import shutil

from harness.model import EnvironmentFailure
from nodes.hosts.sandbox import Privilege, probe

INSTALL_JAVA = "as root: apt-get install -y openjdk-17-jre-headless"


def preflight() -> None:
    """Raises EnvironmentFailure where namespaces cannot be made, or Spark will have no Java to judge with."""
    probe(Privilege.detect())
    if not shutil.which("java"):
        raise EnvironmentFailure(f"judging on Spark needs Java: no java on the path; {INSTALL_JAVA}")
