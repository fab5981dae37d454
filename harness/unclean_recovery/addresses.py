"""Where brokers listen, and how a user writes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.model import BadInput
from harness.model.validation import shown

SERVER: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})")
PORT_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of(servers: str) -> Sequence[Address]:
    """The addresses in host:port[,host:port]; an IPv6 address has brackets. Repeated ones count once."""
    return tuple(dict.fromkeys(_address(part.strip()) for part in servers.split(",")))


def _address(text: str) -> Address:
    found = SERVER.fullmatch(text)
    if found is None or not 0 < int(found["port"]) <= PORT_MAX:
        raise BadInput(f"--bootstrap-server: expected host:port[,host:port], found {shown(text)}")
    return Address(found["v6"] or found["host"], int(found["port"]))
