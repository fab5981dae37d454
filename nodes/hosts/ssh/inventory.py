"""The inventory of SSH hosts: read from TOML and validated before any connection is made.

Node N is the N-th entry. [defaults] holds values for all entries:

    [defaults]
    user = "root"
    key = "~/.ssh/id_ed25519"

    [[hosts]]
    name = "alpha"
    address = "192.0.2.11"

Nothing here is executed, opened or resolved. Patterns accept only plain names, addresses and paths, so no value has a
special meaning in a shell.
"""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.model import BadInput
from harness.model.validation import Matching, dotted, first_problem
from harness.text_files import read_toml

NODES_MAX = 200


def _plain(path: str) -> str:
    if ".." in Path(path).parts:
        raise ValueError("expected a path without '..'")
    return path


def _ipv4(address: str) -> str:
    try:
        return str(ipaddress.IPv4Address(address))
    except ValueError as error:
        raise ValueError("expected an IPv4 address") from error


PLAIN_PATH = "whose parts are letters, digits and . _ + @ -"
Name = Annotated[
    str, Matching(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", "a name of lower-case letters, digits and dashes")
]
Address = Annotated[str, Matching(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", "an address or a host's name")]
User = Annotated[str, Matching(r"[a-z_][a-z0-9_-]{0,31}", "a user's name")]
LocalPath = Annotated[
    str, Matching(r"~?/[A-Za-z0-9._/+@-]*", f"a path that begins with / or ~/, {PLAIN_PATH}"), AfterValidator(_plain)
]
RemotePath = Annotated[
    str, Matching(r"/[A-Za-z0-9._/+@-]+", f"a path that begins with /, {PLAIN_PATH}"), AfterValidator(_plain)
]
HostKey = Annotated[
    str,
    Matching(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,4096}={0,2}", "a key's type and the key, as ssh-keyscan prints them"),
]


class InventoryHost(BaseModel):
    """One machine: how to reach it, how to verify it, and where its node's directory is.

    Its host key must match host_key (one line of ssh-keyscan without the name), else the known_hosts file; any other
    key is rejected unless accept_unknown is set. With sudo, privileged commands use `sudo -n`. python is an interpreter
    on the machine that has splitbrain installed. node_address is the address that other nodes dial, if it is not
    address.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Name
    address: Address
    user: User
    key: LocalPath
    port: int = Field(default=22, ge=1, le=65_535)
    known_hosts: LocalPath = "~/.ssh/known_hosts"
    host_key: HostKey | None = None
    accept_unknown: bool = False
    sudo: bool = False
    directory: RemotePath = "/var/tmp/splitbrain"
    python: RemotePath = sys.executable
    node_address: Annotated[str, AfterValidator(_ipv4)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> InventoryHost:
        if self.host_key is not None and self.accept_unknown:
            raise ValueError("expected host_key or accept_unknown, not both")
        if self.node_address is None:
            try:
                _ipv4(self.address)
            except ValueError as error:
                raise ValueError("expected node_address, an IPv4 address, because address is a name") from error
        return self

    @property
    def dial_address(self) -> str:
        """The IPv4 address that other nodes and clients dial."""
        return self.node_address or self.address

    def __str__(self) -> str:
        return f"{self.name} ({self.user}@{self.address}:{self.port})"


class Inventory(BaseModel):
    """The machines of a quorum, in the order of its nodes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    hosts: list[InventoryHost] = Field(min_length=1, max_length=NODES_MAX)

    @model_validator(mode="after")
    def _distinct(self) -> Inventory:
        for what, values in (
            ("name", [host.name for host in self.hosts]),
            ("node address", [host.dial_address for host in self.hosts]),
        ):
            repeated = sorted({value for value in values if values.count(value) > 1})
            if repeated:
                raise ValueError(f"expected each {what} once, got {repeated[0]!r} more than once")
        return self

    @staticmethod
    def read(path: Path) -> Inventory:
        """Read an inventory from a TOML file. Raises BadInput with file and key."""
        content = read_toml(path, "an inventory in TOML")
        try:
            return Inventory.model_validate(_with_defaults(content))
        except ValidationError as error:
            problem = first_problem(error, Inventory)
            raise BadInput(f"{path}: {dotted(problem.path) or 'hosts'}: {problem}") from error


def _with_defaults(content: dict[str, Any]) -> dict[str, Any]:
    """The content with [defaults] filled in for every host."""
    defaults, hosts = content.get("defaults", {}), content.get("hosts")
    if not isinstance(defaults, dict) or not isinstance(hosts, list):
        return content
    rest = {key: value for key, value in content.items() if key != "defaults"}
    return {**rest, "hosts": [{**defaults, **host} if isinstance(host, dict) else host for host in hosts]}
