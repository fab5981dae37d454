"""Reaches a cluster: the bootstrap servers, the brokers that they name, and the versions that each of them has.

Contains connections and single requests. Does not contain what is asked, or what an answer means.

Raises MissingApi where a broker does not have an API that the tools need: this ends a tool, since no other attempt
helps. PeerFailure (NotSent, NoAnswer) is for the caller to repeat.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kio.schema.errors import ErrorCode

from harness.model import EnvironmentFailure, PeerFailure
from harness.unclean_recovery.options import Address
from harness.unclean_recovery.partitions import ClusterView, view_of
from nodes.wire import codec
from nodes.wire.connection import WireConnection
from nodes.wire.sasl import Plain
from nodes.wire.unreleased import has_replica_log_info

TOPIC_IDS_FROM: Final = 10
"""The first version of Metadata with the ids of topics (KIP-516)."""
TOPICS_MAY_BE_NULL_FROM: Final = 1
FENCED_BROKERS_FROM: Final = 2
"""The first version of DescribeCluster that names fenced brokers (KIP-1073)."""
BROKERS: Final = 1
"""DescribeCluster's type of endpoint."""


class MissingApi(EnvironmentFailure):
    """A broker does not have an API, or not the version of it, that the tool needs."""


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """How the cluster is reached.

    request_timeout_ms is how long an election may take; metadata_timeout_ms is the same for a description of the
    cluster. A pause before a request is repeated begins at backoff_ms and doubles up to backoff_ms_max.
    """

    client_id: str = "splitbrain"
    credentials: Plain | None = None
    request_timeout_ms: int = 30_000
    metadata_timeout_ms: int = 10_000
    backoff_ms: int = 500
    backoff_ms_max: int = 2_000

    def pause_seconds(self, attempt: int) -> float:
        """How long to wait after this attempt, the first being 0."""
        return min(self.backoff_ms << min(attempt, 16), self.backoff_ms_max) / 1000


class Cluster:
    """Connections to a cluster's brokers, each opened at its first use."""

    def __init__(self, bootstrap: Sequence[Address], settings: AccessSettings) -> None:
        assert bootstrap, "there is a bootstrap server"
        self._settings = settings
        self._connections: dict[Address, WireConnection] = {}
        self._servers = list(bootstrap)
        """Where requests for the cluster as a whole go: the first until it fails, then the next."""
        self._brokers: dict[int, Address] = {}
        """Where single brokers are, as far as known; fenced ones too."""

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    @property
    def server(self) -> Address:
        """The server for requests to the cluster as a whole."""
        return self._servers[0]

    def use_next_server(self) -> None:
        """After a failure: another server is first."""
        self._servers.append(self._servers.pop(0))

    def address_of(self, broker: int) -> Address | None:
        """Where a broker is, if any answer named it."""
        return self._brokers.get(broker)

    async def view(self, topics: Iterable[str] | None, version_least: int) -> ClusterView:
        """What the first server that answers knows of these topics; None for all.

        Raises EnvironmentFailure if no server answers, with the reason of each.
        """
        named = None if topics is None else [{"topic_id": None, "name": topic} for topic in sorted(set(topics))]
        values = {
            "topics": named,
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        reasons = []
        for _ in range(len(self._servers)):
            try:
                timeout_ms = self._settings.metadata_timeout_ms
                view = view_of(await self.ask(self.server, codec.METADATA, version_least, values, timeout_ms))
            except PeerFailure as failure:
                reasons.append(str(failure))
                self.use_next_server()
                continue
            self._brokers |= view.brokers
            self._servers += [each for each in view.brokers.values() if each not in self._servers]
            return view
        raise EnvironmentFailure(f"no server of --bootstrap-server describes the cluster: {'; '.join(reasons)}")

    async def locate_brokers(self) -> None:
        """Learn where brokers are that the controller has fenced; Metadata leaves them out.

        A broker without DescribeCluster version 2 does not tell; then only brokers that are not fenced are asked.
        """
        values = {
            "include_cluster_authorized_operations": False,
            "endpoint_type": BROKERS,
            "include_fenced_brokers": True,
        }
        timeout_ms = self._settings.metadata_timeout_ms
        with contextlib.suppress(PeerFailure, MissingApi):
            described = await self.ask(self.server, codec.DESCRIBE_CLUSTER, FENCED_BROKERS_FROM, values, timeout_ms)
            if described.error_code is ErrorCode.none:
                self._brokers |= {int(each.broker_id): Address(each.host, each.port) for each in described.brokers}

    async def refresh_brokers(self) -> None:
        """Learn where brokers are now; nothing changes if no server answers."""
        with contextlib.suppress(EnvironmentFailure):
            await self.view([], TOPICS_MAY_BE_NULL_FROM)
            await self.locate_brokers()

    async def ask(
        self, address: Address, api_key: int, version_least: int, values: Mapping[str, Any], timeout_ms: int
    ) -> Any:
        """Send one request in the newest version that both sides have. Raises MissingApi and PeerFailure."""
        loop, connection = asyncio.get_running_loop(), self._connection(address)
        deadline = loop.time() + timeout_ms / 1000
        ranges = await connection.negotiate(timeout_ms)
        version = newest_version(ranges, api_key, version_least)
        if version is None:
            raise self._missing(address, {api_key: version_least}, ranges)
        left_ms = int((deadline - loop.time()) * 1000)
        return await connection.call(codec.build(api_key, version, "request", values), left_ms)

    async def require(self, needed: Mapping[int, int]) -> None:
        """Raise MissingApi unless the server has these APIs, each in this version or a later one."""
        address = self.server
        ranges = await self._connection(address).negotiate(self._settings.metadata_timeout_ms)
        if any(newest_version(ranges, api_key, least) is None for api_key, least in needed.items()):
            raise self._missing(address, needed, ranges)

    def _connection(self, address: Address) -> WireConnection:
        if address not in self._connections:
            settings = self._settings
            connection = WireConnection(address.host, address.port, settings.client_id, settings.credentials)
            self._connections[address] = connection
        return self._connections[address]

    def _missing(self, address: Address, needed: Mapping[int, int], ranges: Mapping[int, range]) -> MissingApi:
        broker = next((each for each, where in self._brokers.items() if where == address), None)
        peer = str(address) if broker is None else f"broker {broker} at {address}"
        missing = [each for each, least in needed.items() if newest_version(ranges, each, least) is None]
        expected = " and ".join(_described(each, needed[each]) for each in missing)
        found = " and ".join(_found(each, ranges) for each in missing)
        return MissingApi(f"{peer}: expected {expected}, found {found}")


def newest_version(ranges: Mapping[int, range], api_key: int, least: int) -> int | None:
    """The newest version of an API that a broker with these versions and this tool have; None if there is none.

    least is the first version that will do.
    """
    if api_key == codec.GET_REPLICA_LOG_INFO and not has_replica_log_info(ranges):
        return None
    known, offered = codec.versions(api_key), ranges.get(api_key, range(0))
    first, end = max(known.start, offered.start, least), min(known.stop, offered.stop)
    return end - 1 if first < end else None


def _described(api_key: int, least: int) -> str:
    last = codec.versions(api_key)[-1]
    versions = f"version {least}" if least == last else f"versions {least} to {last}"
    return f"{_name(api_key)} (API {api_key}) {versions}"


def _found(api_key: int, ranges: Mapping[int, range]) -> str:
    offered = ranges.get(api_key)
    is_another = api_key == codec.GET_REPLICA_LOG_INFO and not has_replica_log_info(ranges)
    if not offered or is_another:
        return f"no {_name(api_key)}"
    return f"{_name(api_key)} {offered[0]} to {offered[-1]}"


def _name(api_key: int) -> str:
    return "".join(part.capitalize() for part in codec.api_names()[api_key].split("_"))
