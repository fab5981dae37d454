"""The mutants of partitions: wrong designs that KIP-279 and the catalogue's rows warn of, each one visible branch.

Contains their names and what each breaks. They read PartitionSettings.has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from nodes.reference.core.mutants import MutantInfo

PartitionMutant = Literal[
    "follower-never-truncates",
    "leaders-offset-taken",
    "epochs-not-compared",
    "fetches-from-leaders-offset",
    "failed-append-skipped",
    "follower-high-watermark-beyond-log",
    "leader-epoch-not-fenced",
    "diverged-fetch-counts",
    "acknowledged-by-leader-alone",
    "pending-isr-not-counted",
    "shrinks-before-confirmed",
    "joins-before-epoch-start",
    "uncommitted-records-consumed",
    "min-isr-ignored",
    "sequences-not-checked",
    "sequences-forgotten-by-new-leader",
]

MUTANTS: Mapping[PartitionMutant, MutantInfo] = {
    "follower-never-truncates": MutantInfo(
        "A follower truncates nothing, whatever its leader says.", "KIP-101, Motivation", "LD-01, LD-05"
    ),
    "leaders-offset-taken": MutantInfo(
        "A follower truncates to the leader's offset though the epoch ends before that in its own log.",
        "KIP-279, Motivation: comparing with offsets of another epoch",
        "LD-01, LD-02",
    ),
    "epochs-not-compared": MutantInfo(
        "A leader reports divergence only to followers whose logs are longer than its own.",
        "KIP-279, Motivation: an offset of another epoch",
        "LD-02, LD-19",
    ),
    "fetches-from-leaders-offset": MutantInfo(
        "A follower fetches from the offset to which it was to truncate, although a whole batch before it went.",
        "KIP-279, Scenario 1 with n > 20; Kafka 3.9.1 with protocol 1.1",
        "LD-03",
    ),
    "failed-append-skipped": MutantInfo(
        "A follower whose log ends inside a batch of the leader's skips the batch instead of failing.",
        "KIP-279, Scenario 1 with n < 20: out of order offset error",
        "LD-01",
    ),
    "follower-high-watermark-beyond-log": MutantInfo(
        "A follower takes the leader's high watermark though its own log ends before.",
        "KIP-101: the high watermark is at most the log end",
        "LD-08",
    ),
    "leader-epoch-not-fenced": MutantInfo(
        "A leader serves replicas that know another leader epoch.", "KIP-320, fencing", "LD-19"
    ),
    "diverged-fetch-counts": MutantInfo(
        "A leader counts a follower's offset though the follower has not truncated yet.",
        "KAFKA-10435: a diverging fetch is no progress",
        "LD-19",
    ),
    "acknowledged-by-leader-alone": MutantInfo(
        "A leader acknowledges acks=all when it has appended.",
        "KIP-1: acks=all waits for the in-sync replicas",
        "LD-06",
    ),
    "pending-isr-not-counted": MutantInfo(
        "A leader advances the high watermark without the replica that it is adding to the ISR.",
        "KIP-497: the maximal ISR",
        "LD-19",
    ),
    "shrinks-before-confirmed": MutantInfo(
        "A leader advances the high watermark without a replica that it wants to remove, before the controller agrees.",
        "KIP-497: the maximal ISR",
        "LD-19",
    ),
    "joins-before-epoch-start": MutantInfo(
        "A follower joins the ISR at the high watermark, though it lacks what the leader had when it was elected.",
        "KAFKA-7128: a follower's offset reaches the leader epoch's start first",
        "LD-19",
    ),
    "uncommitted-records-consumed": MutantInfo(
        "Consumers read up to the end of the log.", "KIP-101: consumers read below the high watermark", "LD-19"
    ),
    "min-isr-ignored": MutantInfo(
        "A leader accepts acks=all with fewer in-sync replicas than min.insync.replicas.", "KAFKA-1555", "LD-19"
    ),
    "sequences-not-checked": MutantInfo(
        "A leader appends what an idempotent producer sends again.", "KIP-98, idempotent producer", "LD-19"
    ),
    "sequences-forgotten-by-new-leader": MutantInfo(
        "A new leader does not read the sequences of its log.",
        "KIP-98: producer state is rebuilt from the log",
        "LD-19",
    ),
}
"""Every mutant of partitions."""
