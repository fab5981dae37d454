"""JUnit XML: a run_verdict as CI systems show it. One suite a run; one case a check and one an expectation.

Invalid is a failure, unknown an error; a tolerated finding is told in the case's output and passes.

What may live here: the mapping onto JUnit's elements. What may not: judging.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from harness.model import Finding
from results.run_verdict import ExpectationResult, RunVerdict
from results.xml import admitted

_TAGS = {"invalid": "failure", "unknown": "error", "tolerated": "system-out"}


def junit(run_verdicts: Sequence[RunVerdict]) -> str:
    """The document for these run_verdicts, one suite each."""
    root = ET.Element("testsuites", name="splitbrain")
    root.extend([_suite(run_verdict) for run_verdict in run_verdicts])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(run_verdict: RunVerdict) -> ET.Element:
    suite = ET.Element("testsuite", name=run_verdict.name)
    unnamed = {finding.check for finding in run_verdict.findings} - set(run_verdict.checks)
    for check in (*run_verdict.checks, *sorted(unnamed)):
        case = ET.SubElement(suite, "testcase", classname=run_verdict.name, name=f"check {check}")
        case.extend([_result(finding) for finding in run_verdict.findings if finding.check == check])
    for expectation in run_verdict.expectations:
        case = ET.SubElement(
            suite, "testcase", classname=run_verdict.name, name=f"expected: {admitted(expectation.text)}"
        )
        case.extend(_unmet(expectation))
    _count(suite)
    return suite


def _result(finding: Finding) -> ET.Element:
    message = admitted(finding.message)
    if finding.severity == "tolerated":
        result = ET.Element("system-out")
        result.text = f"tolerated: {finding.name}: {message}"
        return result
    result = ET.Element(_TAGS[finding.severity], type=finding.name, message=message)
    result.text = f"{finding.count} such; witnesses: {', '.join(map(str, finding.witnesses)) or 'none in the history'}"
    return result


def _unmet(expectation: ExpectationResult) -> list[ET.Element]:
    if expectation.met:
        return []
    tag = "error" if expectation.met is None else "failure"
    return [ET.Element(tag, type="expectation", message=f"measured: {admitted(expectation.measured)}")]


def _count(suite: ET.Element) -> None:
    """JUnit knows one outcome a case: a case that both fails and errs counts as failed."""
    failed = [case for case in suite if case.find("failure") is not None]
    erred = [case for case in suite if case.find("error") is not None and case not in failed]
    suite.attrib |= {"tests": str(len(suite)), "failures": str(len(failed)), "errors": str(len(erred))}
