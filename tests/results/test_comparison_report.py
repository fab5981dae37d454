"""A comparison in every form: the verdict first, then what is worse; hostile names break none of them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from results.comparison import CaseChange, Comparison, QuantityChange, Rate
from results.comparison_report import junit, markdown, page, text
from results.proportions import wilson_interval

HOSTILE = "<script>alert(1)</script>|`x`\n# [a](javascript:b) \x00 ../"


def rate(failed: int, decided: int) -> Rate:
    return Rate(failed, decided, 0, 0, *wilson_interval(failed, decided))


GAP = QuantityChange(
    "commit_gap_ms", "longest commit gap", 620, 3100, "0.62 s", "3.10 s", 2480, 2000, 2900, "2.00 s to 2.90 s",
    0.0001, 0.004, True,
)  # fmt: skip
FAILING = CaseChange(
    "PV-01 good", "kafka:3.9.1", "system kafka:4.3.1, now kafka:3.9.1", "newly failing", rate(0, 8), rate(8, 8),
    0.0002, 0.002, ("lost-write",), ("lost-write",), {"hanging-transaction": "KAFKA-20734"}, "the write of 7 was lost",
    command="splitbrain reproduce PV-01 --seed 7",
)  # fmt: skip
WORSE = replace(FAILING, case="LP-05 good", status="worse", head=rate(0, 8), problems=(), quantities=(GAP,), change="")
CHANCE = replace(FAILING, case="explore", status="more failures, may be chance", head=rate(1, 8), p_corrected=1.0)
SAME = replace(WORSE, case="PV-02 good", status="passing", quantities=())


def comparison(*cases: CaseChange) -> Comparison:
    return Comparison("previous", "latest", 24, 24, cases, ("lost-* (KAFKA-1)",), (), 0.01, 0.02)


def test_text_begins_with_the_verdict_and_names_the_worst() -> None:
    lines = text(comparison(FAILING, WORSE, CHANCE, SAME)).splitlines()
    assert lines[0].startswith("INVALID: latest is worse than previous: PV-01 good on kafka:3.9.1 fails in 8 of 8 runs")
    assert lines[2] == "before: previous (24 runs); now: latest (24 runs)"
    shown = "\n".join(lines)
    assert "NEW lost-write" in shown
    assert "hanging-" in shown
    assert "2.00 s to 2.90 s" in shown
    assert "1 case as before." in lines
    assert "no longer found: lost-* (KAFKA-1)" in lines
    assert lines[-1] == "Repeat the first: splitbrain reproduce PV-01 --seed 7"


@pytest.mark.parametrize(
    ("cases", "headline"),
    [
        (
            (WORSE,),
            "latest is worse than previous: LP-05 good on kafka:3.9.1 has a longest commit gap of 3.10 s instead of",
        ),
        ((CHANCE,), "Nothing is known to be worse than in previous, but 1 case undecided."),
        ((SAME,), "latest is not worse than previous."),
        ((replace(FAILING, status="newly passing"),), "latest is not worse than previous; 1 case better."),
        ((), "latest and previous have no runs to compare."),
    ],
)
def test_headline(cases: tuple[CaseChange, ...], headline: str) -> None:
    assert comparison(*cases).headline.startswith(headline)


def hostile() -> Comparison:
    bad = replace(
        FAILING, case=HOSTILE, system=HOSTILE, change=HOSTILE, problems=(HOSTILE,), new_problems=(HOSTILE,),
        message=HOSTILE * 10_000, command=HOSTILE, quantities=(replace(GAP, title=HOSTILE),),
    )  # fmt: skip
    return replace(comparison(bad), base=HOSTILE, head=HOSTILE, gone=(HOSTILE,))


def test_markdown_is_short_and_cannot_be_broken_by_names() -> None:
    many = comparison(*[replace(CHANCE, case=f"PV-{number}") for number in range(500)])
    assert len(markdown(many)) < 20_000
    assert "and 480 more cases" in markdown(many)
    lines = markdown(hostile()).splitlines()
    rows = [line.replace("\\|", "") for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {8}
    assert not any("<script>" in line.partition("`")[0] for line in lines)


def test_junit_fails_for_what_is_worse() -> None:
    root = ET.fromstring(junit(comparison(FAILING, WORSE, CHANCE, SAME)))
    suite = root.find("testsuite")
    assert suite is not None
    assert [suite.attrib[name] for name in ("tests", "failures", "errors")] == ["4", "2", "1"]
    failure = suite.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("newly failing: before 0 of 8 failed (0% to 32%); now 8 of 8 failed")
    assert failure.text == "splitbrain reproduce PV-01 --seed 7"
    assert ET.fromstring(junit(hostile())).tag == "testsuites"


class Tags(HTMLParser):
    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)


def test_page_withstands_hostile_names_and_loads_nothing() -> None:
    document = page(hostile(), hostile().cases[0], ())
    assert "script" not in Tags(document).tags
    assert len(document) < 2_000_000
    assert "Worse." in document
    assert "default-src 'none'" in document
