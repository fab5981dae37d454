"""Checks what a run needs of this machine, before the run is created."""

from __future__ import annotations

import shutil

from harness import plugins
from harness.model import BadInput, EnvironmentFailure
from nodes.hosts.sandbox import Privilege, probe

INSTALL_JAVA = "as root: apt-get install -y openjdk-17-jre-headless"


def preflight(hosts: str, inventory: str | None) -> None:
    """Raise EnvironmentFailure where hosts of this kind cannot be created, or Java for Spark is missing.

    Raises BadInput as require_inventory does.
    """
    require_inventory(hosts, inventory)
    if plugins.host_kind(hosts).sandboxed:
        try:
            probe(Privilege.detect())
        except EnvironmentFailure as error:
            raise EnvironmentFailure(f"{error} (or use --hosts local)") from error
    if not shutil.which("java"):
        raise EnvironmentFailure(f"the checks run on Spark, which needs Java: no java on the path; {INSTALL_JAVA}")


def require_inventory(hosts: str, inventory: str | None) -> None:
    """Raise BadInput for a kind of host that needs an inventory, without one."""
    if plugins.host_kind(hosts).needs_inventory and inventory is None:
        raise BadInput(f"--hosts {hosts}: expected --inventory, a TOML file that lists the machines")
