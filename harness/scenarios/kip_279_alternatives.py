"""KIP-279's rejected alternatives between processes of the reference system, and truncation after random histories.

Each rule of truncation is a switch; kip_279_kraft.py has the stories. What the KIP says of an alternative's cost is its
bad side, which breaks no guarantee where the KIP says that the alternative works.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from harness.model.conditions import broker_live, in_sync, replication_settled, stored_high_watermark
from harness.model.faults.membership import elect
from harness.model.faults.requests import create_partition, produce
from harness.model.faults.rpc import Api, intercept
from harness.model.measures import sends
from harness.model.scenario import Scenario, Side, on
from harness.model.story import Step, heal, start, wait_until
from harness.scenarios.expectations import largest, log_end, logs_equal, truncation_rounds
from harness.scenarios.kip_279_kraft import (
    NEVER_STORED,
    REPLICATION,
    leader_changes_twice,
    unclean_leader_changes,
)
from harness.scenarios.kip_279_reference import of_rule
from harness.scenarios.one_partition import KIP_279, PARTITION, QUORUM_LED_BY_N1, TOPIC, dies, leads
from harness.scenarios.unclean_recovery import LOSS

LD_14 = Scenario(
    id="LD-14",
    title="Rejected alternative: the follower requests one epoch at a time, which takes two round trips",
    question="How many responses does n4 need if its leader does not know n4's last epoch?",
    source=KIP_279 / "Rejected Alternatives, Alternative 1",
    nodes=4,
    voters=3,
    layout="combined",
    story=leader_changes_twice(15),
    bad=Side(on(reference=of_rule("kip-279-alternative-1")), shows=(logs_equal, truncation_rounds(2))),
    good=Side(
        on(reference=of_rule("kip-279")),
        shows=(logs_equal, truncation_rounds(1)),
        never=(truncation_rounds(2),),
    ),
)

QUESTIONS = sends(Api.OFFSET_FOR_LEADER_EPOCH, source=4, target=3)
QUESTION_BYTES = 56
"""The size on the wire of n4's question about an epoch of one partition (OffsetForLeaderEpoch version 4)."""

# The KIP counts 64 bits for one epoch and its end in place of an epoch, and 160 for two. In a tagged field they take 17
# and 30 bytes: the epoch stays, and there are the field's tag and size, the array's, and each element's own tags.
LD_15 = Scenario(
    id="LD-15",
    title="Rejected alternative: the follower sends all its epochs, which makes its request larger",
    question="How much larger is n4's request, which has both of its epochs that end at or above the high watermark?",
    source=KIP_279 / "Rejected Alternatives, Alternative 2",
    nodes=4,
    voters=3,
    layout="combined",
    story=leader_changes_twice(15),
    bad=Side(
        on(reference=of_rule("kip-279-alternative-2")),
        shows=(logs_equal, truncation_rounds(1), largest(QUESTION_BYTES + 160 // 8, QUESTIONS)),
        never=(truncation_rounds(2), largest(QUESTION_BYTES + 31, QUESTIONS)),
    ),
    good=Side(
        on(reference=of_rule("kip-279")),
        shows=(logs_equal, truncation_rounds(1), largest(QUESTION_BYTES, QUESTIONS)),
        never=(truncation_rounds(2), largest(QUESTION_BYTES + 1, QUESTIONS)),
    ),
)

STORED_IN_SECOND_TURN = {"replica.high.watermark.checkpoint.interval.ms": "20000"}
"""Longer than n3's first life. In its second one the story waits until n3 has stored its high watermark, 2."""

# The KIP has A send (1, 1), although A never had epoch 1, and then truncate to "its HW which is offset 0", although its
# steps give 2. By its rule, n3 sends the epoch that ends at 2, then both epochs, and truncates to 2: nothing. Then it
# copies n4's next record.
LD_16 = Scenario(
    id="LD-16",
    title="Rejected alternative: logs stay different after unclean elections if the high watermark has advanced",
    question="Where does n3 truncate if its high watermark is 2 and its leader knows none of its epochs?",
    source=KIP_279 / "Rejected Alternatives, Alternative 2",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *unclean_leader_changes(4, after={2: wait_until(stored_high_watermark(3, PARTITION))}),
        produce("n4", PARTITION, 1, acks="all"),
    ),
    bad=Side(
        on(reference=of_rule("kip-279-alternative-2", STORED_IN_SECOND_TURN)),
        shows=(truncation_rounds(2),),
        never=(truncation_rounds(3),),
        breaks=("diverged-logs",),
        may_break=LOSS,
    ),
    good=Side(
        on(reference=of_rule("kip-279", STORED_IN_SECOND_TURN)),
        shows=(logs_equal, truncation_rounds(2)),
        never=(truncation_rounds(3),),
        breaks=LOSS,
    ),
)

UNCLEAN = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}

# n3 stores its high watermark at most when it begins to follow n4; it is killed, and begins to follow n4 again. Then it
# can neither ask nor fetch. What it has kept is seen when n4 dies.
LD_17 = Scenario(
    id="LD-17",
    title="Rejected alternative: records are lost if the high watermark is not stored at each leader change",
    question="Does n3, which had all 21 committed records, still have them after a crash?",
    source=KIP_279 / "Alternatives that address clean leader election only, 1",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (4, 3), UNCLEAN),
        leads(4),
        wait_until(in_sync(3, PARTITION)),
        produce("n4", PARTITION, 21, acks="all"),
        *dies(4),
        leads(3),
        start("n4"),
        wait_until(in_sync(4, PARTITION)),
        elect("preferred", PARTITION),
        leads(4),
        wait_until(in_sync(3, PARTITION)),
        intercept(REPLICATION),
        *dies(3),
        start("n3"),
        wait_until(broker_live(3)),
        *dies(4),
        leads(3),
        produce("n3", PARTITION, 1),
        heal(),
        wait_until(replication_settled(4, PARTITION)),
    ),
    bad=Side(
        on(reference=of_rule("kip-279-clean-only-1", NEVER_STORED)),
        shows=(logs_equal,),
        never=(log_end(22),),
    ),
    good=Side(
        on(
            reference=of_rule(
                "kip-279-clean-only-1",
                {**NEVER_STORED, "reference.stores_high_watermark_at_leader_change": "true"},
            )
        ),
        shows=(logs_equal, log_end(22)),
    ),
)

HISTORIES, LIVES = 3, 5
"""How often the logs become equal again, and how many lives of leaders are between two such times."""


def _lives(drawn: random.Random) -> Iterator[Step]:
    """Leaders of random epochs: n3 or n4 leads alone and appends some batches; then the other one follows it."""
    up = 3
    yield from (*dies(4), leads(3))
    for life in range(LIVES):
        node = drawn.choice((3, 4)) if life < LIVES - 1 else 7 - up  # the last leader is another than the one before
        yield from (*dies(up), start(f"n{node}"), leads(node))
        yield from (produce(f"n{node}", PARTITION, drawn.randint(1, 4)) for _ in range(drawn.randint(1, 2)))
        up = node
    follower = 7 - up
    yield from (start(f"n{follower}"), wait_until(replication_settled(follower, PARTITION)))
    if up == 4:
        yield from (*dies(4), leads(3), start("n4"), wait_until(in_sync(4, PARTITION)))


def random_histories(seed: int) -> Sequence[Step]:
    """Several of them, one after another; the same for the same seed."""
    drawn = random.Random(seed)
    return [step for _ in range(HISTORIES) for step in _lives(drawn)]


LD_08 = Scenario(
    id="LD-08",
    title="A follower keeps a record whose epoch differs from the leader's",
    question="Are the logs of n3 and n4 equal after random unclean elections in epochs that the other does not know?",
    source=KIP_279 / "Proposed Changes",
    nodes=4,
    voters=3,
    layout="combined",
    story=(
        *QUORUM_LED_BY_N1,
        create_partition(TOPIC, (3, 4), UNCLEAN),
        leads(3),
        wait_until(in_sync(4, PARTITION)),
        *random_histories(seed=279),
    ),
    bad=Side(
        on(reference=of_rule("kip-279", {**NEVER_STORED, "reference.mutant": "follower-never-truncates"})),
        breaks=("diverged-logs|replication-stuck",),
        may_break=("diverged-logs", "replication-stuck", "log-hole"),
    ),
    good=Side(on(reference=of_rule("kip-279", NEVER_STORED)), shows=(logs_equal,)),
)

SCENARIOS = (LD_08, LD_14, LD_15, LD_16, LD_17)
