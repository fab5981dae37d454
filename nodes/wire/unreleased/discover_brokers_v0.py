"""DiscoverBrokers version 0: who is where, and who leads the quorum, as far as the sender knows.

Source: KIP-642, "Quorum Bootstrapping", which names the API and says what it is for. It gives neither a schema nor an
API key; the fields here are what the text needs, and 642 is a key that no release of Kafka has. The response has the
same contents as the request, since the API is a gossip. KIP-642 finds the leader with Metadata requests; here the
leader is in this API's messages, and no second request is needed.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import BrokerId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32, i64, u16


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBroker:
    """One node's advertised listener, and when that node started."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(642)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    node_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The node's id."""
    host: str = field(metadata={"kafka_type": "string"})
    """The host of its listener for the quorum."""
    port: u16 = field(metadata={"kafka_type": "uint16"})
    """The port of its listener for the quorum."""
    boot_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    """When it started, by its own clock, in ms; -1 for an address from a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersRequest:
    """What the sender knows; it asks for what the receiver knows."""

    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(642)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    cluster_id: str | None = field(metadata={"kafka_type": "string"})
    """The sender's cluster, null if it knows none."""
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The leader that the sender knows, -1 if none."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The sender's epoch."""
    brokers: tuple[KnownBroker, ...]
    """The sender first, and the others that it knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBrokerInResponse:
    """One node's advertised listener, and when that node started."""

    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(642)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    node_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The node's id."""
    host: str = field(metadata={"kafka_type": "string"})
    """The host of its listener for the quorum."""
    port: u16 = field(metadata={"kafka_type": "uint16"})
    """The port of its listener for the quorum."""
    boot_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    """When it started, by its own clock, in ms; -1 for an address from a configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoverBrokersResponse:
    """What the receiver of a request knows."""

    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(642)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    """INCONSISTENT_CLUSTER_ID for a node of another cluster, or zero."""
    leader_id: BrokerId = field(metadata={"kafka_type": "int32"})
    """The leader that the receiver knows, -1 if none."""
    leader_epoch: i32 = field(metadata={"kafka_type": "int32"})
    """The receiver's epoch."""
    brokers: tuple[KnownBrokerInResponse, ...]
    """The receiver first, and the others that it knows."""
