"""Compares what nodes announced to each other, as the proxy recorded it, with what their files and logs hold.

    two-votes-announced         a node votes for one candidate in an epoch, restarts included
    announced-vote-not-in-file  the file of an epoch has the vote that was announced (KIP-595: it is stored first)
    announced-epoch-forgotten   a node that announced an epoch has no lower one on file, and none after a restart
    announced-commit-without-majority, announced-commit-beyond-log, announced-commit-missing,
    announced-commit-overwritten
                                high watermarks (checkers/announcements/commits.py)

A message is evidence of its sender alone, so none of this depends on what a leader knows of its voters. What a rule of
the proxy did to a message does not matter, since its sender had sent it. The proxy's own answers announce nothing.

    votes       A granted vote that is no pre-vote is a vote for the receiver; a request for such votes is one for the
                sender. Pre-votes bind nobody (KIP-996).
    epochs      A node's own epoch is in its requests and in its grants. A rejection may repeat the request's epoch,
                which the voter did not adopt. A pre-vote's epoch counts only against the node, when it is too low.
    files       A file is compared with messages that are older by SPARE_NS, more than the time between its reading and
                its time stamp. A file without a vote is a finding only if the node's version keeps votes, and not if
                the node leads: its own vote is implied (`vote-forgotten` in checkers/quorum/safety.py).
    restarts    Messages of one node pass on several connections, so their order is known only across a restart. After
                it requests count, from SPARE_NS after the end of the process before. A response may have been on its
                way since before.
    disks       A node whose stored vote a fault erased, at any time, is not judged by these three rules. Writes that
                were lost because they were not synced are no excuse.

The witnesses are the nemesis's last operations before. A run without a proxy has no findings. All times are of the
controller's clock.

Contains the check, and which nodes kept their files. The rules are in votes.py and commits.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from checkers.announcements import commits, votes
from checkers.announcements.violations import with_operations
from checkers.framework.by_run import of_run
from checkers.framework.contract import Check, JudgeSettings, finding, no_findings
from checkers.framework.timeline import nemesis_ops
from harness.model import Op
from harness.model.nemesis_ops import NemesisOps

CHECK = "announcements"


def findings(
    history: DataFrame, observations: DataFrame, batches: DataFrame, rpcs: DataFrame, settings: JudgeSettings
) -> DataFrame:
    """Every violated rule; nothing where no RPC was recorded."""
    if rpcs.isEmpty():
        return no_findings(history)
    erased = erased_files(history, settings)
    announced, of_kept = rpcs.where(has_kept(erased, "source")), observations.where(has_kept(erased, "node"))
    rules = [
        votes.two_votes(announced),
        votes.vote_not_in_file(announced, of_kept, settings),
        votes.epoch_not_in_file(announced, of_kept),
        votes.epoch_forgotten(announced, of_kept),
        *commits.rules(rpcs, batches, observations, settings),
    ]
    found = with_operations(reduce(DataFrame.unionAll, rules), history, settings.ops)
    name, message = fn.col("name"), fn.col("message")
    node, time_ns, witnesses = fn.col("node"), fn.col("time_ns"), fn.col("witnesses")
    return finding(found, CHECK, name, message, node=node, time_ns=time_ns, witnesses=witnesses)


def has_kept(erased: Column, node: str) -> Column:
    """Whether no fault erased the stored vote of the node in this column; none kept it if erased is null."""
    return erased.isNotNull() & ((fn.size(erased) == 0) | ~fn.array_contains(erased, fn.col(node)))


def erased_files(history: DataFrame, settings: JudgeSettings) -> Column:
    """The nodes of a row's run whose stored vote a fault erased; null if a fault did not say whose."""
    of_nemesis = nemesis_ops(history, settings).items()
    return of_run({run: erased_by(each, settings.ops) for run, each in of_nemesis}, "array<int>", settings)


def erased_by(operations: Iterable[Op], ops: NemesisOps) -> list[int] | None:
    """The nodes whose stored vote these operations erased; None if one of them does not say whose."""
    erasures = [op for op in operations if op.f in ops.erases_vote]
    named = [op.value["nodes"] for op in erasures if isinstance(op.value, dict) and "nodes" in op.value]
    # Of an operation's two rows, the second names the nodes, unless it failed.
    if 2 * len(named) < len(erasures):
        return None
    return sorted({node for nodes in named for node in nodes})


ANNOUNCEMENTS = Check(findings, reads=("history", "observations", "batches", "rpcs"), handles_many_runs=True)
