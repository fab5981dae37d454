"""What the two tools are asked to do: options that make sense together.

Contains values and pure functions, and imports little, since the commands need it for their help. Raises BadInput for
options that contradict each other; the message names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from harness.model import BadInput
from harness.model.shown_values import shown

RECOVERY_DURATION_MS: Final = 30_000
ELECTION_ATTEMPTS: Final = 3
MILLISECONDS_MAX: Final = 2**31 - 1
PARTITION_MAX: Final = 2**31 - 1

TOPIC_PATTERN: Final = r"[A-Za-z0-9._-]{1,249}"
TOPIC_WORDS: Final = "a topic's name, up to 249 letters, digits, '.', '_' or '-'"

SERVER: Final = re.compile(
    r"(?:\[(?P<v6>[0-9a-fA-F:.]+(?:%[A-Za-z0-9._-]+)?)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>[0-9]{1,5})"
)
PORT_MAX: Final = 65_535


class ElectionType(Enum):
    """Which replica is to lead."""

    PREFERRED = "PREFERRED"
    UNCLEAN = "UNCLEAN"
    DESIGNATED = "DESIGNATED"


@dataclass(frozen=True, slots=True)
class RecoveryOptions:
    """What `unclean-recovery` does.

    listed is the file with the partitions; None for all offline partitions. output is the file to create for
    `elect-leaders`, if any. elects: leaders are elected. duration_ms is how long brokers may take to report their logs.
    retries is how often a request for elections is repeated after an error that passes.
    """

    listed: Path | None
    shows_replicas: bool
    output: Path | None
    elects: bool
    duration_ms: int = RECOVERY_DURATION_MS
    retries: int = ELECTION_ATTEMPTS


def recovery_options(
    path_to_json_file: Path | None,
    all_offline_partitions: bool,
    show_replica_info: bool,
    manual_recovery_output_file: Path | None,
    automated_recovery: bool,
    recovery_duration_ms: int = RECOVERY_DURATION_MS,
    recovery_election_attempts: int = ELECTION_ATTEMPTS,
) -> RecoveryOptions:
    """The options of `unclean-recovery`, if the proposal allows them together."""
    _one_of({"--path-to-json-file": path_to_json_file is not None, "--all-offline-partitions": all_offline_partitions})
    to_do = {
        "--show-replica-info": show_replica_info,
        "--manual-recovery-output-file": manual_recovery_output_file is not None,
        "--automated-recovery": automated_recovery,
    }
    if not any(to_do.values()):
        raise BadInput(f"{', '.join(to_do)}: expected at least one of them, found none")
    if manual_recovery_output_file is not None and automated_recovery:
        raise BadInput("--manual-recovery-output-file, --automated-recovery: expected one of both at most, found both")
    return RecoveryOptions(
        listed=path_to_json_file,
        shows_replicas=show_replica_info,
        output=manual_recovery_output_file,
        elects=automated_recovery,
        duration_ms=recovery_duration_ms,
        retries=recovery_election_attempts,
    )


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """What `elect-leaders` does: listed is the file with the partitions, single one partition, both None for all."""

    kind: ElectionType
    listed: Path | None
    single: tuple[str, int] | None


def election_options(
    election_type: ElectionType,
    path_to_json_file: Path | None,
    topic: str | None,
    partition: int | None,
    all_topic_partitions: bool,
) -> ElectionOptions:
    """The options of `elect-leaders`, if they can be used together."""
    _one_of(
        {
            "--path-to-json-file": path_to_json_file is not None,
            "--topic": topic is not None,
            "--all-topic-partitions": all_topic_partitions,
        }
    )
    if (topic is None) != (partition is None):
        raise BadInput(f"--topic, --partition: expected both, found {'--partition' if topic is None else '--topic'}")
    if election_type is ElectionType.DESIGNATED and path_to_json_file is None:
        raise BadInput("--election-type DESIGNATED: expected --path-to-json-file, which names the designated leaders")
    if topic is not None and not re.fullmatch(TOPIC_PATTERN, topic):
        raise BadInput(f"--topic: expected {TOPIC_WORDS}, found {shown(topic)}")
    single = None if topic is None or partition is None else (topic, partition)
    return ElectionOptions(election_type, path_to_json_file, single)


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


def _one_of(given: Mapping[str, bool]) -> None:
    """Exactly one of these options is to be given."""
    found = [name for name, is_given in given.items() if is_given]
    if len(found) != 1:
        raise BadInput(f"{', '.join(given)}: expected one of them, found {' and '.join(found) or 'none'}")
