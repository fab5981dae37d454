"""Discovery: where the other nodes listen, and who leads, by gossip among all nodes (KIP-642, DiscoverBrokers).

A voter assignment names voters by their ids alone, so every node tells the others where it listens. It sends what it
knows to one address after the other: those of bootstrap_servers, of the nodes that it has found, and of the voters if
its log has them (KIP-853). It does so at short intervals until every address has been tried twice, and later while an
address of a voter or the leader is unknown; otherwise at long ones, so that a change reaches everybody.

Of two addresses of a node, the one with the later boot timestamp counts. The timestamp is the advertising node's own
clock: if that is set back, the others keep the old address until it has caught up (RA-26).

Contains what is known and when to ask. Without bootstrap_servers a node asks nobody, and answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode

from nodes.reference.core.context import Context
from nodes.reference.core.events import Contact, Discover, Located
from nodes.reference.core.messages import NO_NODE, Advertised, DiscoverRequest, DiscoverResponse
from nodes.reference.core.settings import NEVER_MS

_SHORT_MS = 200
_LONG_MS = 5_000
_FIRST_ROUNDS = 2


class Discovering:
    """What one node knows of the others' addresses."""

    def __init__(self, context: Context) -> None:
        self._context, self._settings = context, context.settings
        self._known: dict[int, Advertised] = {}
        for node, address in self._settings.endpoints.items():
            host, _, port = address.rpartition(":")
            self._known[node] = Advertised(node, host, int(port))
        own = self._settings.advertised
        if own is not None:
            me = self._settings.node_id
            self._known[me] = Advertised(me, *own, boot_ms=context.wall_ms)
        context.located.update(self._known)
        self._sent = 0
        self._is_waiting = False
        self._asked: set[Contact] = set()
        self._note_asked()
        self._next_ms = context.now_ms if self._settings.bootstrap_servers else NEVER_MS

    @property
    def deadline_ms(self) -> int:
        """When advance is due if there is no event."""
        return NEVER_MS if self._is_waiting else self._next_ms

    @property
    def known(self) -> Mapping[int, Advertised]:
        """The latest address of each node that was found, and its own."""
        return self._known

    def request(self, leader_id: int | None, epoch: int) -> DiscoverRequest:
        """What to tell another node."""
        leader = NO_NODE if leader_id is None else leader_id
        return DiscoverRequest(self._settings.cluster_id, self._brokers(), leader, epoch)

    def response(self, request: DiscoverRequest, leader_id: int | None, epoch: int) -> DiscoverResponse:
        """Learn what the sender knows, and answer with what this node knows; not to a node of another cluster."""
        if request.cluster_id not in (None, self._settings.cluster_id):
            return DiscoverResponse(ErrorCode.inconsistent_cluster_id, (), NO_NODE, epoch)
        if not self._settings.has("addresses-from-responses-alone"):
            self.learn(request.brokers)
        leader = NO_NODE if leader_id is None else leader_id
        return DiscoverResponse(ErrorCode.none, self._brokers(), leader, epoch)

    def learn(self, brokers: Iterable[Advertised]) -> None:
        """Take over addresses of nodes that started later than those known here did."""
        for each in brokers:
            known = self._known.get(each.node_id)
            if each.node_id != self._settings.node_id and self._is_newer(each, known):
                self._known[each.node_id] = each
                self._context.located.add(each.node_id)
                if known is None or (known.host, known.port) != (each.host, each.port):
                    self._context.emit(Located(each.node_id, (each.host, each.port)))
        self._note_asked()

    def _note_asked(self) -> None:
        asks = bool(self._settings.bootstrap_servers)
        self._context.has_asked_all = not asks or (not self._is_waiting and self._asked.issuperset(self._contacts()))

    def _is_newer(self, each: Advertised, known: Advertised | None) -> bool:
        if known is None:
            return True
        return (
            each.boot_ms != known.boot_ms if self._settings.has("gossip-of-any-age") else each.boot_ms > known.boot_ms
        )

    def ended(self) -> None:
        """The latest request has been answered, or will not be."""
        self._is_waiting = False
        self._note_asked()

    def advance(self, leader_id: int | None, epoch: int) -> None:
        """Ask the next address if it is time."""
        if self._context.now_ms < self.deadline_ms:
            return
        contacts = self._contacts()
        if not contacts:
            self._next_ms = self._context.now_ms + _LONG_MS
            return
        contact = contacts[self._sent % len(contacts)]
        self._sent, self._is_waiting = self._sent + 1, True
        self._asked.add(contact)
        is_urgent = self._sent <= _FIRST_ROUNDS * len(contacts) or leader_id is None or self._misses_a_voter()
        self._next_ms = self._context.now_ms + (_SHORT_MS if is_urgent else _LONG_MS)
        self._context.emit(Discover(contact, self.request(leader_id, epoch)))

    def hurry(self) -> None:
        """Ask at short intervals again, from now on."""
        if self._settings.bootstrap_servers and self._next_ms > self._context.now_ms + _SHORT_MS:
            self._next_ms = self._context.now_ms

    def _misses_a_voter(self) -> bool:
        assignment = self._context.voters.last.assignment
        return not {*assignment.current, *(assignment.target or ())} <= self._known.keys()

    def _contacts(self) -> list[Contact]:
        """All addresses but its own, with those that the log names (KIP-853)."""
        known = {(each.host, each.port) for each in self._known.values()}
        known |= {(each.host, each.port) for each in self._context.voters.last.assignment.nodes}
        return sorted({*self._settings.bootstrap_servers, *known} - {self._settings.advertised})

    def _brokers(self) -> tuple[Advertised, ...]:
        """Its own address first."""
        me = self._settings.node_id
        return tuple(sorted(self._known.values(), key=lambda each: (each.node_id != me, each.node_id)))
