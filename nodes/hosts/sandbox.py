"""The sandbox of a run: namespaces that the kernel tears down, with everything in them, when the controller ends.

A run's controller works in its own network, mount, UTS and PID namespaces. Node processes, bridges, rules and mounts
are inside, so they all end when the first process of the PID namespace dies, for whatever reason. Root creates the
namespaces directly; other users create them in a user namespace, with the same code.

    argv = enclose(["python", "-m", "harness.running.controller", "results/runs/…"], Privilege.detect())
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from enum import Enum

from harness.model import EnvironmentFailure
from nodes.hosts.commands import last_line

TOOLS = ("unshare", "nsenter", "setpriv", "ip", "nft")
PROBE_SECONDS = 20
INSTALL_TOOLS = "as root: apt-get install -y util-linux iproute2 nftables"


class Privilege(Enum):
    """The privilege with which namespaces are created."""

    ROOT = "root"
    USER_NAMESPACE = "user namespace"

    @staticmethod
    def detect() -> Privilege:
        """ROOT for uid 0, else USER_NAMESPACE."""
        return Privilege.ROOT if os.geteuid() == 0 else Privilege.USER_NAMESPACE


def enclose(argv: Sequence[str], privilege: Privilege) -> list[str]:
    """The command that runs argv in a sandbox and dies with its parent.

    setpriv ends unshare when the parent thread ends, unshare's --kill-child then ends the PID namespace.
    """
    user = [] if privilege is Privilege.ROOT else ["--map-root-user"]
    namespaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [
        *["setpriv", "--pdeathsig", "KILL", "--"],
        *["unshare", *user, *namespaces, "--propagation", "private", "--"],
        *argv,
    ]


def die_with_parent(argv: Sequence[str]) -> list[str]:
    """The command that runs argv without a sandbox and dies with its parent, if setpriv is installed."""
    return [*(["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []), *argv]


def widen_path() -> None:
    """Let this process and its children find ip and nft; Debian installs them where only root's path leads."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def missing_tools() -> list[str]:
    """The programs that sandboxes and namespace hosts need but that are not on the path."""
    return [tool for tool in TOOLS if not shutil.which(tool)]


def probe(privilege: Privilege) -> None:
    """Create a sandbox with a bridge and an nft table, then leave it. Raises EnvironmentFailure if that fails."""
    missing = missing_tools()
    if missing:
        raise EnvironmentFailure(f"creating namespaces: {', '.join(missing)} not on the path; {INSTALL_TOOLS}")
    script = "ip link add probe type bridge && nft add table ip probe && nft list tables >/dev/null"
    argv = enclose(["sh", "-c", script], privilege)
    try:
        result = subprocess.run(argv, capture_output=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"creating namespaces: timed out after {PROBE_SECONDS} s") from error
    if result.returncode:
        raise EnvironmentFailure(f"creating namespaces as {privilege.value}: {last_line(result.stderr)}")
