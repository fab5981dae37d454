"""`elect-leaders`: request preferred, unclean or designated elections, as Kafka's own tool does.

A partition that needs no election counts as a success, as with Kafka's tool. `--all-topic-partitions` asks for every
partition that Metadata lists, in requests of at most 1,000: a request for "all" has no end that a limit could be
checked against.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.unclean_recovery.access import TOPICS_MAY_BE_NULL_FROM, AccessSettings, Cluster
from harness.unclean_recovery.electing import Electing
from harness.unclean_recovery.elections import VERSION_LEAST
from harness.unclean_recovery.files import Listing
from harness.unclean_recovery.options import ELECTION_ATTEMPTS, Address, ElectionOptions, ElectionType
from harness.unclean_recovery.outcomes import Outcome, Result
from harness.unclean_recovery.partitions import REPEATED, ClusterView, TopicPartition
from harness.unclean_recovery.recover import Report
from harness.unclean_recovery.stopping import stop_on_signals, unless_stopped
from harness.unclean_recovery.watch import Watch
from nodes.wire import codec


async def elect(
    options: ElectionOptions,
    listing: Listing | None,
    bootstrap: Sequence[Address],
    settings: AccessSettings,
    watch: Watch,
) -> Report:
    """Carry the options out; listing is the content of options.listed, None if there is no file."""
    views: list[ClusterView] = []
    everything = listing is None and options.single is None

    async def find() -> None:
        watch.stage("reading the cluster's metadata", 1)
        views.append(await cluster.view(None if everything else [], TOPICS_MAY_BE_NULL_FROM))
        await cluster.require({codec.ELECT_LEADERS: VERSION_LEAST[options.kind]})

    async with Cluster(bootstrap, settings) as cluster:
        with stop_on_signals() as stop:
            if not await unless_stopped(stop, find()):
                outcome = Outcome(Result.NOT_DONE, reason="interrupted")
                return Report(dict.fromkeys(_listed(options, listing), outcome), is_interrupted=True)
            repeated = listing.repeated if listing else frozenset[TopicPartition]()
            listed = sorted(views[0].partitions) if everything else _listed(options, listing)
            is_designated = options.kind is ElectionType.DESIGNATED
            leaders = listing.leaders if listing and is_designated else {}
            wanted = {each: leaders.get(each) for each in listed if each not in repeated}
            electing = Electing(cluster, settings, stop, watch)
            outcomes = await electing.elect_all(options.kind, wanted, ELECTION_ATTEMPTS)
            return Report(outcomes | dict.fromkeys(repeated, REPEATED), is_interrupted=stop.is_set())


def _listed(options: ElectionOptions, listing: Listing | None) -> Sequence[TopicPartition]:
    if listing is not None:
        return listing.partitions
    return [TopicPartition(*options.single)] if options.single else []
