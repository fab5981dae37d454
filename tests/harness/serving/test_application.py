"""The pages of `splitbrain serve`: what they show, and what no request can reach or change."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from harness.judging.known import Known
from harness.nightly.directory import NightDirectory, new_night
from harness.nightly.plan import NightPlan, cells_of, jobs_of
from harness.nightly.summary import write_jobs
from harness.serving.application import PAGE_POLICY, PAGE_ROWS, application
from results.files import write_json
from results.headline import NOT_SHOWN, SHOWN
from results.run_verdict import read_verdict, write_verdict
from results.store import RunDirectory, new_run
from tests.support.stored_runs import BEGIN, failed_verdict, judged_run, passed_verdict, register_plan, reproduction

HOSTILE = '"><script>document.title = "ran"</script>'
REAL_RUN = Path(__file__).parents[2] / "support" / "runs" / "old_names"


def began_night(store: Path) -> NightDirectory:
    """A night with one job that failed, which is still running."""
    plan = NightPlan.model_validate({"name": "chaos", "seed": 1, "entries": [{"explore": True}]})
    night = new_night(store, plan, {}, BEGIN)
    run = judged_run(store, "explore", register_plan(name="explore"), failed_verdict(), BEGIN)
    write_json(run.origin, {"night": night.name, "variant": ""})
    run.report.write_text(f"<h1>report</h1>{HOSTILE}")
    jobs = jobs_of(cells_of(plan), 1)
    write_jobs(night, jobs)
    night.record("began", job=jobs[0].id, run=run.name)
    night.record("ended", job=jobs[0].id, outcome="failed")
    return night


def real_run(store: Path, seed: int) -> RunDirectory:
    """A recorded run of an earlier release."""
    run = new_run(store, "run", BEGIN + timedelta(seconds=seed))
    shutil.rmtree(run.path)
    shutil.copytree(REAL_RUN, run.path)
    return run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs"


@pytest.fixture
def client(store: Path) -> Iterator[FlaskClient]:
    """A store with a night, a reproduction, two real runs, and names that try to break out."""
    began_night(store)
    judged_run(store, "run", register_plan(name=HOSTILE, system=HOSTILE), passed_verdict(), BEGIN)
    reproduction(store, {"bad-1": NOT_SHOWN, "good-1": SHOWN})
    for seed in (1, 2):
        real_run(store, seed)
    app = application(store, Known())
    app.testing = True
    with app.test_client() as client:
        yield client


def page(client: FlaskClient, address: str, code: int = 200) -> str:
    """A page, which must have no script and the policy that forbids them."""
    response = client.get(address)
    assert response.status_code == code, response.text
    assert response.headers["Content-Security-Policy"] == PAGE_POLICY
    assert "<script" not in response.text
    return response.text


def run_named(store: Path, part: str) -> str:
    """The name of the only run with this part in it."""
    (found,) = (path.name for path in store.iterdir() if part in path.name)
    return found


def recorded(store: Path) -> list[str]:
    """The names of the runs that have tables."""
    return sorted(path.parent.name for path in store.glob("2*/history"))


def test_first_page_has_the_calendar_and_what_did_not_pass(client: FlaskClient) -> None:
    text = page(client, "/")
    assert "November 2026" in text
    assert "not finished" in text
    assert "lost-write" in text
    assert "All 5 runs" in text


def test_night_is_shown_as_far_as_it_has_come(client: FlaskClient, store: Path) -> None:
    text = page(client, "/nights/20261120T020000Z-chaos")
    assert "The night is not finished" in text
    assert "the write of 7 was lost" in text
    assert f'href="/reports/{run_named(store, "explore")}"' in text


def test_runs_are_found_by_search_and_filters(client: FlaskClient, store: Path) -> None:
    explored = run_named(store, "explore")
    for query in (
        "text=LOST",
        "night=20261120T020000Z-chaos",
        "verdict=invalid&fault=kill",
        "system=reference&text=seed",
    ):
        assert (explored in page(client, f"/runs?{query}")) is (query != "system=reference&text=seed")
    assert "0 runs" in page(client, "/runs?workload=nothing")
    assert "PV-01" in page(client, "/runs?workload=PV-01")


def test_pages_of_runs_go_from_new_to_old(store: Path) -> None:
    for number in range(PAGE_ROWS + 1):
        judged_run(store, f"run{number:03}", register_plan(), passed_verdict(), BEGIN + timedelta(seconds=number))
    app = application(store, Known())
    first, second, beyond = (app.test_client().get(f"/runs?page={number}&fault=kill").text for number in (1, 2, 99))
    assert f"run{PAGE_ROWS:03}" in first
    assert "run000" not in first
    assert "/runs?page=2&amp;fault=kill" in first
    assert "run000" in second
    assert second == beyond
    assert app.test_client().get("/runs?page=x").status_code == 200


def test_run_has_its_facts_its_problems_and_its_report(client: FlaskClient, store: Path) -> None:
    name = run_named(store, "explore")
    text = page(client, f"/runs/{name}")
    assert "the write of 7 was lost" in text
    assert "longest commit gap" in text
    assert "/nights/20261120T020000Z-chaos" in text
    report = client.get(f"/reports/{name}")
    assert report.data == (store / name / "report.html").read_bytes()
    assert report.headers["Content-Security-Policy"].startswith("sandbox;")


def test_reproduction_lists_its_runs(client: FlaskClient, store: Path) -> None:
    name = run_named(store, "PV-01")
    bad, _ = (each.name for each in RunDirectory(store / name).sides())
    text = page(client, f"/runs/{name}")
    assert f"/runs/{name}/{bad}" in text
    assert "expected: the leader is deposed" in page(client, f"/runs/{name}/{bad}")


def test_two_runs_are_drawn_on_one_time_axis(client: FlaskClient, store: Path) -> None:
    first, second = recorded(store)
    text = page(client, f"/side-by-side?run={first}&run={second}")
    assert text.count('class="side"') == 2
    assert "What was measured" in text
    for query in (f"run={first}", f"run={first}&run=nothing", f"run={first}&run={run_named(store, 'PV-01')}"):
        page(client, f"/side-by-side?{query}", 404 if "nothing" in query else 400)


def test_damaged_table_of_a_run_is_one_line(client: FlaskClient, store: Path) -> None:
    first, second = recorded(store)
    for chunk in (store / first / "history").iterdir():
        chunk.write_bytes(b"no Parquet")
    text = page(client, f"/side-by-side?run={first}&run={second}", 500)
    assert "Cannot be shown" in text
    assert "Traceback" not in text


def test_trends_lead_to_cases_and_cases_to_nights(client: FlaskClient) -> None:
    assert "/trend?case=explore&amp;system=reference&amp;variant=" in page(client, "/trends")
    text = page(client, "/trend?case=explore&system=reference")
    assert "1 of 1 runs failed" in text
    assert 'href="/nights/20261120T020000Z-chaos"' in text
    assert text.count("<svg") == 2
    page(client, "/trend?case=nothing", 404)


def test_hostile_names_are_text(client: FlaskClient) -> None:
    assert "&lt;script&gt;" in page(client, "/runs")
    assert "&lt;script&gt;" in page(client, "/trends")
    assert "&lt;script&gt;" in page(client, "/nights/%3Cscript%3E", 404)
    page(client, "/runs?text=%22%3E%3Cscript%3E")


@pytest.mark.parametrize(
    "address",
    ["/runs/../secret", "/reports/..%2fsecret", "/reports/%2e%2e/secret", "/reports//etc/passwd", "/nights/..", "/x"],
)
def test_addresses_outside_the_store_are_not_found(client: FlaskClient, store: Path, address: str) -> None:
    (store.parent / "secret").mkdir()
    (store.parent / "secret" / "report.html").write_text("secret")
    response = client.get(address)
    assert response.status_code in (308, 404)
    assert "secret</" not in response.text


def test_other_hosts_and_other_methods_are_refused(client: FlaskClient) -> None:
    assert client.get("/", headers={"Host": "attacker.example"}).status_code == 400
    assert client.get("/", headers={"Host": "localhost:8270"}).status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        assert client.open("/runs", method=method).status_code == 405


def test_new_runs_appear(client: FlaskClient, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.serving.store.MAX_AGE_SECONDS", 0)
    run = judged_run(store, "later", register_plan(), passed_verdict(), BEGIN + timedelta(days=1))
    assert run.name in page(client, "/runs")
    write_verdict(run, failed_verdict())
    assert read_verdict(run.verdict).verdict.value == "invalid"
    assert "lost-write" in page(client, f"/runs/{run.name}")
