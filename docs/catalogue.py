"""Plays the scenarios of the catalogue, and writes docs/catalogue.md from what was measured.

python docs/catalogue.py play [--way kafka] [--times 3] [ID …]    what is missing or has changed
python docs/catalogue.py                                          rewrite the page
python docs/catalogue.py --check                                  exit 1 if the page is out of date

Scenarios are played in several ways, WAYS: on the reference system, on Kafka by the releases that the sides name, on
other releases, and with Kafka's reading of the KIPs. Each scenario that was played one way has a file in
docs/catalogue, e.g. PV-01-kafka.json: the commit, and of each side the version, the runs that went as documented, and
what was measured next to its bound. A scenario is played again if its definition has changed since, or if fewer runs
than asked for are stored; an interrupted command goes on there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness import plugins
from harness.commands.output.progress import progress
from harness.model import BadInput, Verdict
from harness.model.scenario import Scenario, Side, SideName
from harness.planning.plan import ReproductionRequest
from harness.running.reproduce import reproduce_scenarios
from harness.scenarios.families import FAMILIES
from results.headline import tone_of
from results.proportions import wilson_interval
from results.quantities import duration_text, is_time, number_text
from results.run_verdict import RunVerdict

DOCS = Path(__file__).parent
FOLDER = DOCS / "catalogue"
PAGE = DOCS / "catalogue.md"
STORE = Path("results/runs")
BATCH = 24
"""How many scenarios share a Spark session; what a batch has measured is stored at its end."""

TIMES_OF_DEFECTS = 5
"""How often defects of released Kafka (EX) are played, since they are rare in part."""
NEWEST = "newest 4"
CHECK_QUORUM = ("LP-01", "LP-02", "LP-04")
"""Rows about Check Quorum, which Kafka has since 3.7. Others of this document name 3.9.1, or need dynamic voters."""
DEFECTS = ("EX-02", "EX-03", "EX-04")
"""Defects that older releases have too; the last one is not in 3.9."""

OF_BROKERS = ("LD-", "UR-")
"""Rows to which the readings of the quorum's KIPs make no difference."""
SIMULATED = ("PV-01", "PV-02", "LP-01", "LP-05", "RA-18", *DEFECTS, "EX-07", "EX-08", "EX-09", "EX-11", "EX-12")
"""Rows that are played on simulated nodes too, to compare."""


@dataclass(frozen=True)
class Way:
    """A way to play scenarios: system and switches as on the command line, how often, and which scenarios and sides.

    rows are ids or their beginnings, all if empty; `without` are beginnings of others that are left out. releases are
    those that a side may name; a way with a release of its own plays the sides that name another one, to see whether
    they hold on this one too.
    """

    name: str
    system: str
    hosts: str = "netns"
    times: int = 1
    switches: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()

    def sides(self, scenario: Scenario) -> dict[SideName, Side]:
        """The sides of a scenario that are played this way, each with the setup of this way's system alone."""
        system = self.system.partition(":")[0]
        if (self.rows and not scenario.id.startswith(self.rows)) or scenario.id.startswith(self.without):
            return {}
        return {
            name: replace(side, setups={system: side.setups[system]})
            for name, side in scenario.sides.items()
            if system in side.setups and (not self.releases or side.setups[system].version in self.releases)
        }

    def wanted(self, scenario: Scenario) -> int:
        """How often a scenario is played."""
        return TIMES_OF_DEFECTS if self.name == "kafka" and scenario.id.startswith("EX-") else self.times


WAYS = {
    way.name: way
    for way in (
        Way("reference", "reference", times=3),
        Way("kafka", "kafka"),
        Way("kafka-4.0.0", "kafka:4.0.0", rows=("PV-",), releases=(NEWEST,)),
        Way("kafka-3.9.1", "kafka:3.9.1", rows=CHECK_QUORUM, releases=(NEWEST,)),
        Way("kafka-3.9.0", "kafka:3.9.0", rows=("PV-13",), releases=("3.9.1",)),
        Way("kafka-3.7.2", "kafka:3.7.2", rows=CHECK_QUORUM, releases=(NEWEST,)),
        Way("defects-4.0.0", "kafka:4.0.0", times=TIMES_OF_DEFECTS, rows=DEFECTS, releases=("4.3.1",)),
        Way(
            "defects-3.9.1",
            "kafka:3.9.1",
            times=TIMES_OF_DEFECTS,
            rows=("EX-02", "EX-03", "EX-13"),
            releases=("4.3.1",),
        ),
        Way("simulated", "reference", "simulation", rows=SIMULATED),
        Way("simulated-kafka", "kafka", "simulation", rows=SIMULATED, releases=(NEWEST, "4.3.1", "3.9.1")),
        Way("simulated-4.0.0", "kafka:4.0.0", "simulation", rows=DEFECTS, releases=("4.3.1",)),
        Way("simulated-3.9.1", "kafka:3.9.1", "simulation", rows=DEFECTS[:2], releases=("4.3.1",)),
        Way("kafka-reading", "reference", switches={"reference.reading": "kafka"}, without=OF_BROKERS),
    )
}

BESIDE = {
    "the reference system": ("reference", "simulated"),
    "Kafka, by the releases that the sides name": ("kafka", "simulated-kafka"),
    "4.0.0": ("defects-4.0.0", "simulated-4.0.0"),
    "3.9.1": ("defects-3.9.1", "simulated-3.9.1"),
}
"""The ways that play a row on processes and simulated, by what both play."""
ON_HOSTS = tuple(way for way in WAYS.values() if way.hosts != "simulation")

Stored = dict[str, Any]


def fingerprint(scenario: Scenario, way: Way) -> str:
    """Changes whenever what is played or expected of a scenario this way does; its wording does not count."""
    sides = way.sides(scenario)
    played = replace(scenario, bad=sides.get("bad"), good=sides.get("good"))
    return hashlib.sha256(repr(_essence(played)).encode()).hexdigest()[:16]


WORDING = {"id", "title", "question", "source", "text", "alone", "full"}
"""The fields of scenarios, sides and expectations that change neither a run nor its verdict."""


def _essence(value: Any) -> Any:
    """A value without its wording, and without what is at its default, so that a new field changes no fingerprint."""
    if is_dataclass(value):
        own = ((each, getattr(value, each.name)) for each in fields(value) if each.name not in WORDING)
        set_here = {
            each.name: _essence(found) for each, found in own if found != each.default and found not in ((), {})
        }
        return type(value).__name__, set_here
    if isinstance(value, Mapping):
        return {key: _essence(each) for key, each in value.items()}
    return tuple(map(_essence, value)) if isinstance(value, tuple) else value


def file_of(scenario: Scenario, way: Way) -> Path:
    """Where the results of a scenario are."""
    return FOLDER / f"{scenario.id}-{way.name}.json"


def stored(scenario: Scenario, way: Way) -> Stored | None:
    """What was measured of a scenario as it is now; None if nothing was."""
    file = file_of(scenario, way)
    results: Stored | None = json.loads(file.read_text()) if file.exists() else None
    return results if results and results["scenario"] == fingerprint(scenario, way) else None


def is_missing(scenario: Scenario, way: Way, times: int | None) -> bool:
    """Whether the stored results have fewer runs than wanted."""
    results = stored(scenario, way)
    return results is None or any(
        len(side["runs"]) < (times or way.wanted(scenario)) for side in results["sides"].values()
    )


def play(
    scenarios: Sequence[Scenario], way: Way, times: int | None, at_once: int | None, store: Path
) -> Iterator[tuple[Scenario, RunVerdict]]:
    """Play what is missing, a batch at a time, and store the results of each batch."""
    missing = [each for each in scenarios if way.sides(each) and is_missing(each, way, times)]
    groups: dict[tuple[int, str], list[Scenario]] = {}
    for each in missing:
        sides = list(way.sides(each))
        side = "both" if len(sides) == len(each.sides) else sides[0]
        groups.setdefault((times or way.wanted(each), side), []).append(each)
    for (runs, side), group in groups.items():
        for first in range(0, len(group), BATCH):
            batch = group[first : first + BATCH]
            request = ReproductionRequest(
                system=way.system,
                hosts=way.hosts,
                side=side,
                switch=way.switches,
                times=runs,
                at_once=at_once,  # type: ignore[arg-type]
            )
            with progress() as on_event:
                for scenario, (_, verdict) in zip(
                    batch, reproduce_scenarios(batch, request, store, None, on_event), strict=True
                ):
                    save(scenario, way, verdict)
                    yield scenario, verdict


def save(scenario: Scenario, way: Way, verdict: RunVerdict) -> None:
    """Store the results of a scenario."""
    sides = {name: _side(side, name, verdict) for name, side in way.sides(scenario).items()}
    results = {
        "scenario": fingerprint(scenario, way),
        "commit": commit(),
        "played": f"{datetime.now(UTC):%Y-%m-%d}",
        "sides": sides,
    }
    FOLDER.mkdir(exist_ok=True)
    file_of(scenario, way).write_text(json.dumps(results, indent=1) + "\n")


def commit() -> str:
    """The commit that is checked out; with a plus sign if files have changed since."""
    head = subprocess.run(["git", "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=True).stdout
    changed = subprocess.run(
        ["git", "status", "--porcelain", "-uno", ":!docs/catalogue*"], capture_output=True, text=True, check=True
    ).stdout
    return head.strip() + ("+" if changed.strip() else "")


def _side(side: Side, name: str, verdict: RunVerdict) -> Stored:
    """The runs of a side: how it is called, whether each went as documented, its seconds, and what was measured."""
    runs = [each for each in verdict.sides if each.name.startswith(f"{name}-")]
    measured: dict[str, list[float]] = {}
    for expectation in verdict.expectations:
        if expectation.quantity and expectation.value is not None and expectation.text.startswith(f"{name}-"):
            measured.setdefault(expectation.quantity, []).append(round(expectation.value, 3))
    findings = sorted({finding.name for finding in verdict.findings if finding.name in side.expected_findings})
    return {
        "label": next((run.description.system for run in runs if run.description), ""),
        "runs": [tone_of(run.headline) is Verdict.VALID for run in runs],
        "seconds": [round(run.description.seconds, 1) for run in runs if run.description],
        "measured": measured,
        "findings": findings,
    }


def render() -> str:
    """The page."""
    scenarios = plugins.scenarios()
    rows = {each.id: _running(each) for each in scenarios.values()}
    parts = [_INTRODUCTION.format(all=len(rows))]
    families = [*FAMILIES, *sorted({name.partition("-")[0] for name in rows} - set(FAMILIES))]
    for family in families:
        title = str(FAMILIES[family][1]) if family in FAMILIES else _OTHERS[family]
        own = [rows[name] for name in sorted(rows) if name.partition("-")[0] == family]
        parts.append(f"## {family}: {title}\n\n{_HEADER}\n" + "\n".join(own) + "\n")
    beside = [_beside(scenarios[name]) for name in sorted(scenarios) if name in SIMULATED]
    return "\n".join([*parts, _SIMULATED + "\n".join(beside) + "\n"])


_INTRODUCTION = """# The catalogue

{all} scenarios run by name: the 150 of the five documents, their forms for KRaft, and known defects. `splitbrain
reproduce ID` runs one, and `splitbrain scenarios show ID` explains it.

A side is what one configuration, release or planted bug does; the bad side has to show the anomaly, the good side must
not. Each cell has the configuration, how many of its runs went as documented (with a 95 % interval where there were
several), and what was measured next to its bound. The last column has the commit and how long a run takes: on the
reference system, on Kafka, and for the other ways to play a row. `kafka-4.0.0`, `-3.9.1`, `-3.9.0` and `-3.7.2` are
sides that need the newest release, tried on an older one; `defects-4.0.0` and `-3.9.1` are defects of 4.3.1 that these
releases have too. `kafka-reading` is the reference system with `reference.reading=kafka`, which does what Kafka does
where it differs from the KIPs ([where](findings/kips.md)); rows that show such a difference do not go as documented
there.
`make scenarios` plays what is missing or has changed, and writes this page.
"""
_SIMULATED = f"""## Simulated, beside processes

Rows that are also played on simulated nodes: of each side, how many runs went as documented on processes, and simulated
(`--hosts simulation`).

| id | {" | ".join(BESIDE)} |
|---|{"---|" * len(BESIDE)}
"""
_OTHERS = {"EX": "defects and anomalies found with splitbrain", "KAFKA": "issues of Kafka"}
_HEADER = "| id | scenario | bad side | good side | played |\n|---|---|---|---|---|"


def _running(scenario: Scenario) -> str:
    cells = [_cell(scenario, name) for name in ("bad", "good")]
    played = "; ".join(filter(None, (_played(scenario, way) for way in ON_HOSTS)))
    return f"| {scenario.id} | {scenario.title} | {cells[0]} | {cells[1]} | {played} |"


def _cell(scenario: Scenario, name: SideName) -> str:
    sides = ((way, way.sides(scenario).get(name)) for way in ON_HOSTS)
    return "<br>".join(_result(scenario, name, side, way) for way, side in sides if side)


def _beside(scenario: Scenario) -> str:
    """A row of the table of what is played on processes and simulated."""
    cells = ["<br>".join(_pair(scenario, *map(WAYS.__getitem__, ways))) for ways in BESIDE.values()]
    return f"| {scenario.id} | " + " | ".join(cells) + " |"


def _pair(scenario: Scenario, on_processes: Way, simulated: Way) -> Iterator[str]:
    for name in simulated.sides(scenario):
        counts = [_count(scenario, name, way) for way in (on_processes, simulated)]
        yield f"{name}: {counts[0]}; {counts[1]} simulated"


def _count(scenario: Scenario, name: SideName, way: Way) -> str:
    results = stored(scenario, way)
    runs = results["sides"].get(name, {}).get("runs") if results else None
    return f"{sum(runs)} of {len(runs)}" if runs else "not played"


def _result(scenario: Scenario, name: SideName, side: Side, way: Way) -> str:
    results = stored(scenario, way)
    own = results["sides"].get(name) if results else None
    if own is None:
        return f"{way.name}: not played"
    count, fitting = len(own["runs"]), sum(own["runs"])
    interval = ""
    if count > 1:
        low, high = wilson_interval(fitting, count)
        interval = f" ({low:.0%} to {high:.0%})"
    measured = [*_bounds(side, own["measured"]), *own["findings"]]
    return f"{own['label']}: {fitting} of {count}{interval}" + "".join(f"; {each}" for each in measured)


def _bounds(side: Side, measured: dict[str, list[float]]) -> Iterable[str]:
    """What was measured, from the lowest to the highest of the runs, next to its bound."""
    for sign, expectations in (("≥", side.shows), ("<", side.never)):
        for each in expectations:
            values = measured.get(each.quantity)
            if values:
                text = " to ".join(dict.fromkeys(_text(each.quantity, value) for value in (min(values), max(values))))
                yield f"{each.quantity} {text} ({sign} {_text(each.quantity, each.at_least)})"


def _text(quantity: str, value: float) -> str:
    return duration_text(value) if is_time(quantity) else number_text(value)


def _played(scenario: Scenario, way: Way) -> str:
    results = stored(scenario, way) if way.sides(scenario) else None
    if results is None:
        return ""
    seconds = [each for side in results["sides"].values() for each in side["seconds"]]
    return f"{way.name} {results['commit']}, {max(seconds):.0f} s" if seconds else ""


def main(arguments: Sequence[str]) -> int:
    """Play, rewrite or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("play", "write"), default="write")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--way", action="append", choices=tuple(WAYS), help="all of them if not given")
    parser.add_argument("--times", type=int)
    parser.add_argument("--at-once", type=int, help="runs at a time; as many as the machine allows if not given")
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_intermixed_args(arguments)
    if options.check:
        return int(not PAGE.exists() or PAGE.read_text() != render())
    failed = []
    if options.what == "play":
        scenarios = [plugins.scenario(each) for each in options.ids] or list(plugins.scenarios().values())
        for way in map(WAYS.__getitem__, options.way or WAYS):
            for scenario, verdict in play(scenarios, way, options.times, options.at_once, options.store):
                print(f"{scenario.id}, {way.name}: {verdict.summary}", flush=True)
                failed += [] if verdict.verdict is Verdict.VALID else [scenario.id]
    PAGE.write_text(render())
    if failed:
        print(f"not as documented: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BadInput as error:
        sys.exit(f"{error}")
