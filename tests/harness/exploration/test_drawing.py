"""What an exploration draws: the same run for the same seed, every essential situation in ten runs, swarms of kinds."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from statistics import mean

import pytest

from harness import plugins
from harness.exploration.coverage import Coverage
from harness.exploration.drawing import CLIENTS, ESSENTIAL, described, drawn, kinds_of_move, possible_moves
from harness.exploration.request import ExplorationRequest
from harness.model import BadInput
from harness.model.faults.rpc import INTERCEPT, Api
from harness.model.nemesis_ops import AWAIT, SLEEP
from harness.model.story import MARK
from harness.planning.plan import Plan, Request
from harness.running.run import plan_of
from nemesis.moves import AT_EVENTS, MOVES, OF_CLIENTS

REQUEST = ExplorationRequest(system="reference")
ALL = frozenset(plugins.actions())
NONE = Coverage()


def moves_of(run: Request) -> list[str]:
    """The moves of a run's story, in order."""
    return [step.value for step in run.story if step.f == MARK]


def test_seed_determines_the_run() -> None:
    assert drawn(REQUEST, 5, ALL, NONE) == drawn(REQUEST, 5, ALL, NONE)
    assert drawn(REQUEST, 5, ALL, NONE) != drawn(REQUEST, 6, ALL, NONE)


@pytest.mark.parametrize("seed", [0, 7, 1234])
def test_any_ten_runs_have_every_essential_move(seed: int) -> None:
    firsts = [moves_of(drawn(REQUEST, seed + number, ALL, NONE))[0] for number in range(10)]
    assert sorted(firsts) == sorted(ESSENTIAL)


def test_move_is_dealt_again_only_after_all_others() -> None:
    for seed in range(10):
        dealt = moves_of(drawn(REQUEST.model_copy(update={"run_seconds": 240}), seed, ALL, NONE))
        rounds = len(set(dealt))
        assert len(dealt) > rounds, "the story is long enough for a second round"
        assert sorted(dealt[:rounds]) == sorted(set(dealt))


def test_moves_that_were_rarely_reached_come_earlier() -> None:
    often = ["leader paused", "slow disk", "votes are lost"]
    reached = Coverage(runs=50, moves=Counter(dict.fromkeys(often, 400)))
    ranks: dict[str, list[float]] = {"before": [], "after": []}
    for seed in range(60):
        for when, coverage in (("before", NONE), ("after", reached)):
            dealt = moves_of(drawn(REQUEST.model_copy(update={"run_seconds": 240}), seed, ALL, coverage))
            first_round = list(dict.fromkeys(dealt))
            places = [first_round.index(name) / len(first_round) for name in often if name in first_round]
            ranks[when] += places
    assert mean(ranks["after"]) > 0.9 > 0.7 > mean(ranks["before"])


def test_states_that_faults_rarely_met_are_waited_for() -> None:
    reached = Coverage(runs=50, faults=Counter({name: 400 for name in AT_EVENTS if name != "pause of a Leader"}))
    request = REQUEST.model_copy(update={"run_seconds": 240})
    stories = [drawn(request, seed, ALL, reached).story for seed in range(40)]
    waits = Counter(step.value["condition"]["name"] for story in stories for step in story if step.f == AWAIT)
    assert waits["is_leader"] > 2 * waits["is_unattached"] + 5, "of all pairs, only that of a leader was not reached"


def test_runs_differ_in_their_kinds_of_faults() -> None:
    """Swarm testing: few kinds in some runs, many in others, and each kind in some and not in others."""
    runs = [moves_of(drawn(REQUEST, seed, ALL, NONE)) for seed in range(60)]
    kinds = [frozenset().union(*(kinds_of_move(name, 3) for name in moves)) for moves in runs]
    assert min(map(len, kinds)) <= 2
    assert max(map(len, kinds)) >= 5
    for kind in frozenset().union(*kinds):
        assert 0 < sum(kind in each for each in kinds) < len(kinds)


def test_story_lasts_about_as_long_as_requested() -> None:
    for seed in range(20):
        pauses = sum(step.value for step in drawn(REQUEST, seed, ALL, NONE).story if step.f == SLEEP)
        assert 0.6 * REQUEST.run_seconds < pauses < 2.8 * REQUEST.run_seconds


def test_disk_that_can_lose_writes_is_used_where_the_story_needs_it() -> None:
    for seed in range(30):
        run = drawn(REQUEST, seed, ALL, NONE)
        loses = any(step.f == "lose_unsynced" for step in run.story)
        assert run.disk == ("ext4" if loses else "directory")


def test_move_with_an_unavailable_action_is_not_drawn() -> None:
    for seed in range(20):
        run = drawn(REQUEST, seed, ALL - {"lose_unsynced", "rpc"}, NONE)
        assert {step.f for step in run.story}.isdisjoint({"lose_unsynced", "rpc"})


def test_voters_change_only_where_the_system_supports_it() -> None:
    """Kafka's voters can change if some nodes are no voters at first; those of the reference do not by default."""
    requests = [ExplorationRequest(system=system, run_seconds=300) for system in ("reference", "kafka:4.3.1")]
    runs = [drawn(request, seed, ALL, NONE) for request in requests for seed in range(12)]
    changed = {(run.system, run.voters) for run in runs if any(step.f == "remove_voter" for step in run.story)}
    assert changed == {("kafka:4.3.1", 3)}


@pytest.mark.parametrize("changes", ["kip-642", "kip-853"])
def test_clients_change_the_voters_where_the_system_lets_them(changes: str) -> None:
    request = ExplorationRequest(system="reference", switch={"reference.voter_changes": changes})
    runs = [drawn(request, seed, ALL, NONE) for seed in range(20)]
    assert {run.workload for run in runs} == {"reassignment"}
    assert all(run.voters is not None and run.voters < run.nodes for run in runs)
    for run in runs:
        plan_of(run, {})  # raises BadInput for a run that cannot be


def test_without_any_fault_nothing_can_be_explored() -> None:
    with pytest.raises(BadInput, match="none of its faults is available here"):
        drawn(REQUEST, 1, (), NONE)


def test_switches_of_the_user_override_those_that_are_drawn() -> None:
    switches = {"reference.mutant": "no-truncation", "reference.read_mode": "local"}
    request = REQUEST.model_copy(update={"switches": switches})
    for seed in range(5):
        assert drawn(request, seed, ALL, NONE).switches.items() >= request.switches.items()


def test_half_of_the_runs_have_a_reader_and_a_writer_pinned_to_each_node() -> None:
    runs = [drawn(REQUEST, seed, ALL, NONE) for seed in range(40)]
    assert {(run.pinned, run.concurrency) for run in runs} == {
        (pinned, CLIENTS + pinned) for run in runs for pinned in (0, 2 * run.nodes)
    }
    assert 10 < sum(run.pinned > 0 for run in runs) < 30


def options_drawn(system: str) -> list[dict[str, str]]:
    """The distinct options of the workload `register` in the runs of a system."""
    runs = [drawn(ExplorationRequest(system=system), seed, ALL, NONE) for seed in range(20)]
    without = {run.workload for run in runs if not run.workload_options}
    assert without == ({"set"} if system == "reference" else {"set", "log", "transactions"})
    options = {tuple(run.workload_options.items()) for run in runs if run.workload == "register"}
    return [dict(each) for each in sorted(options)]


def test_registers_have_cold_keys_and_large_batches_where_the_system_reads_them_at_one_time() -> None:
    cold = {"keys": "hot-and-cold"}
    assert options_drawn("kafka:4.3.1") == [cold]
    assert options_drawn("reference") == [{**cold, "batches": "large"}, {**cold, "batches": "no"}]


def test_description_tells_the_load() -> None:
    load = {"workload": "register", "rate": 300, "concurrency": 12, "pinned": 6, "bursts": 2}
    options = {"keys": "hot-and-cold", "batches": "large"}
    plan = Plan.model_validate({"name": "explore", "seed": 7, "story": [], "option": options, **load})
    said = "register with hot-and-cold keys and large batches at 300/s in bursts of 2 s, 6 clients pinned"
    assert said in described(plan)


def test_clients_send_to_brokers_in_some_runs_of_kafka() -> None:
    """Their requests are disturbed first, and no power failure takes what a broker need not have synced."""
    runs = [drawn(ExplorationRequest(system="kafka:4.3.1"), seed, ALL, NONE) for seed in range(60)]
    sending = [run for run in runs if run.workload in ("log", "transactions")]
    assert Counter(run.workload for run in sending).keys() == {"log", "transactions"}
    assert 15 < len(sending) < 35
    assert {tuple(moves_of(run)[:2]) for run in sending} == {OF_CLIENTS, OF_CLIENTS[::-1]}
    assert {moves_of(run)[2] for run in sending} <= set(ESSENTIAL)
    assert not any(step.f == "lose_unsynced" for run in sending for step in run.story)
    assert {(run.pinned, run.rate_per_second) for run in sending} == {(0, 200)}
    disturbed: dict[str, set[int]] = {"log": set(), "transactions": set()}
    for run in sending:
        rules = [rule for step in run.story if step.f == INTERCEPT for rule in step.value["rules"]]
        apis = [rule["match"]["api_keys"] for rule in rules if rule["name"] == "clients"]
        disturbed[run.workload].update(chain.from_iterable(apis))
    assert disturbed["log"] == {Api.PRODUCE}, "what clients do not send is not disturbed"
    assert disturbed["transactions"] == {*(Api.PRODUCE, Api.INIT_PRODUCER_ID, Api.ADD_PARTITIONS_TO_TXN, Api.END_TXN)}
    others = [moves_of(run) for run in runs if run not in sending]
    assert not any(set(OF_CLIENTS) & set(moves) for moves in others)


def test_possible_moves_are_those_that_the_system_allows() -> None:
    """A summary names none as missing that no run can have."""
    of_voters = {"voter leaves and returns", "paused voter is removed", "voter is replaced after a truncation"}
    impossible = {
        system: set(MOVES) - set(possible_moves(ExplorationRequest(system=system)))
        for system in ("reference", "kafka:3.8.1", "kafka:4.3.1")
    }
    assert impossible == {
        "reference": {*of_voters, *OF_CLIENTS},
        "kafka:3.8.1": of_voters,
        "kafka:4.3.1": set(),
    }
