"""What a user compares is found by name, and a name of nothing is refused in one line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from harness.comparing.selection import selected, set_baseline
from harness.judging.baselines import remove_baseline, stored_baselines
from harness.judging.index import index
from harness.model import BadInput
from harness.nightly.directory import new_night
from harness.nightly.plan import Entry, NightPlan
from results.files import write_json
from results.headline import SHOWN
from tests.support.stored_runs import BEGIN, judged_run, passed_verdict, register_plan, reproduction


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three runs of three days, of which the last two are of nights; and a reproduction."""
    runs = tmp_path / "runs"
    for day in range(3):
        now = BEGIN + timedelta(days=day)
        run = judged_run(runs, f"day{day}", register_plan(), passed_verdict(), now)
        if day:
            night = new_night(runs, NightPlan(seed=1, entries=[Entry(explore=True)]), {}, now)
            write_json(run.origin, {"night": night.name, "variant": ""})
    reproduction(runs, {"bad": SHOWN, "good": "valid"})
    return runs


def names(words: str, store: Path) -> set[str]:
    return {row.run.rpartition("-")[0].partition("Z-")[2] for row in selected(words, index(store), store)}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("latest", {"day2"}),
        ("previous", {"day1"}),
        ("20261121T020000Z-nightly", {"day1"}),
        ("20261121T0", {"day1"}),
        ("2026-11-21", {"day1"}),
        ("2026-11-21..2026-11-22", {"day1", "day2"}),
        ("latest,previous", {"day1", "day2"}),
        ("20261120T020000Z-day0", {"day0"}),
        ("20261120T020000Z-PV", {"PV-01-reference-4ff8/bad", "PV-01-reference-4ff8/good"}),
    ],
)
def test_words_name_runs(store: Path, words: str, expected: set[str]) -> None:
    found = names(words, store)
    if "PV" in words:
        assert {name.rpartition("/")[2] for name in found} == {"bad", "good"}
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("latst", "latst: expected a night, a run, a baseline, a date, latest or previous; did you mean latest?"),
        ("", "nothing: expected a night"),
        ("2026-13-01", "2026-13-01: expected dates such as 2026-11-20"),
        ("2020-01-01", "2020-01-01: expected runs that have been judged, found 0 runs"),
        ("2026", "2026: expected one name, found 2: "),
        ("../..", "../..: expected a night"),
    ],
)
def test_name_of_nothing_is_refused(store: Path, words: str, problem: str) -> None:
    with pytest.raises(BadInput) as refusal:
        selected(words, index(store), store)
    assert problem in str(refusal.value)


def test_night_without_an_earlier_one_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    with pytest.raises(BadInput, match="latest: expected a night, found none"):
        selected("latest", [], store)
    new_night(store, NightPlan(seed=1, entries=[Entry(explore=True)]), {}, BEGIN)
    with pytest.raises(BadInput, match="previous: expected an earlier night of nightly, found none"):
        selected("previous", [], store)


def test_baseline_keeps_its_runs_until_it_is_set_again(store: Path) -> None:
    first = set_baseline("release-4.3", ["2026-11-21", "20261120T020000Z-day0"], store)
    assert names("release-4.3", store) == {"day0", "day1"}
    assert stored_baselines(store) == {"release-4.3": first}
    set_baseline("release-4.3", ["latest"], store)
    assert names("release-4.3", store) == {"day2"}
    remove_baseline("release-4.3", store)
    assert stored_baselines(store) == {}
    with pytest.raises(BadInput, match=r"release-4\.3: expected a baseline"):
        remove_baseline("release-4.3", store)


@pytest.mark.parametrize("name", ["latest", "../x", "2026-11-20", "", "a" * 80])
def test_baseline_needs_a_name_of_its_own(store: Path, name: str) -> None:
    with pytest.raises(BadInput, match="expected a name of letters"):
        set_baseline(name, ["latest"], store)


def test_damaged_baseline_is_refused_with_its_file(store: Path) -> None:
    (store.parent / "baselines").mkdir()
    (store.parent / "baselines" / "bad.json").write_text('{"runs": [1]}')
    with pytest.raises(BadInput, match=r"bad.json: expected a baseline, with the names of its runs"):
        selected("latest", index(store), store)
