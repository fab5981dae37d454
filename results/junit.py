"""JUnit XML for CI systems: one suite per run, with one case per check and one per expectation.

An invalid finding is a failure, an unknown one an error. A tolerated finding appears in the output of a passing case.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from harness.model import Finding
from results.run_verdict import ExpectationResult, RunVerdict
from results.xml import valid_xml_text

_TAGS = {"invalid": "failure", "unknown": "error"}


def junit(run_verdicts: Sequence[RunVerdict]) -> str:
    """The XML document for these verdicts, with one suite each."""
    root = ET.Element("testsuites", name="splitbrain")
    root.extend([_suite(run_verdict) for run_verdict in run_verdicts])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(run_verdict: RunVerdict) -> ET.Element:
    suite = ET.Element("testsuite", name=run_verdict.name)
    unlisted = {finding.check for finding in run_verdict.findings} - set(run_verdict.checks)
    for check in (*run_verdict.checks, *sorted(unlisted)):
        case = ET.SubElement(suite, "testcase", classname=run_verdict.name, name=f"check {check}")
        case.extend([_result(finding) for finding in run_verdict.findings if finding.check == check])
    for expectation in run_verdict.expectations:
        case = ET.SubElement(
            suite, "testcase", classname=run_verdict.name, name=f"expected: {valid_xml_text(expectation.text)}"
        )
        case.extend(_unmet(expectation))
    _count(suite)
    return suite


def _result(finding: Finding) -> ET.Element:
    message = valid_xml_text(finding.message)
    if finding.severity == "tolerated":
        result = ET.Element("system-out")
        result.text = f"tolerated: {finding.name}: {message}"
        return result
    result = ET.Element(_TAGS[finding.severity], type=finding.name, message=message)
    witnesses = ", ".join(map(str, finding.witnesses)) or "none in the history"
    result.text = f"occurrences: {finding.count}; witnesses: {witnesses}"
    return result


def _unmet(expectation: ExpectationResult) -> list[ET.Element]:
    if expectation.met:
        return []
    tag = "error" if expectation.met is None else "failure"
    return [ET.Element(tag, type="expectation", message=f"measured: {valid_xml_text(expectation.measured)}")]


def _count(suite: ET.Element) -> None:
    """In JUnit a case has one outcome: a case with a failure and an error counts as failed."""
    failures = [case for case in suite if case.find("failure") is not None]
    errors = [case for case in suite if case.find("error") is not None and case not in failures]
    suite.attrib |= {"tests": str(len(suite)), "failures": str(len(failures)), "errors": str(len(errors))}
