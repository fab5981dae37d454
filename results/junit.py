"""JUnit XML: a judgement as CI systems show it. One suite a run; one case a check and one an expectation.

Invalid is a failure, unknown an error; a tolerated finding is told in the case's output and passes.

What may live here: the mapping onto JUnit's elements. What may not: judging.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from harness.model import Finding
from results.run_verdict import Expectation, Judgement
from results.xml import admitted

_TAGS = {"invalid": "failure", "unknown": "error", "tolerated": "system-out"}


def junit(judgements: Sequence[Judgement]) -> str:
    """The document for these judgements, one suite each."""
    root = ET.Element("testsuites", name="splitbrain")
    root.extend([_suite(judgement) for judgement in judgements])
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(judgement: Judgement) -> ET.Element:
    suite = ET.Element("testsuite", name=judgement.name)
    unnamed = {finding.check for finding in judgement.findings} - set(judgement.checks)
    for check in (*judgement.checks, *sorted(unnamed)):
        case = ET.SubElement(suite, "testcase", classname=judgement.name, name=f"check {check}")
        case.extend([_result(finding) for finding in judgement.findings if finding.check == check])
    for expectation in judgement.expectations:
        case = ET.SubElement(
            suite, "testcase", classname=judgement.name, name=f"expected: {admitted(expectation.text)}"
        )
        case.extend(_disappointment(expectation))
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


def _disappointment(expectation: Expectation) -> list[ET.Element]:
    if expectation.met:
        return []
    tag = "error" if expectation.met is None else "failure"
    return [ET.Element(tag, type="expectation", message=f"measured: {admitted(expectation.measured)}")]


def _count(suite: ET.Element) -> None:
    """JUnit knows one outcome a case: a case that both fails and errs counts as failed."""
    failed = [case for case in suite if case.find("failure") is not None]
    erred = [case for case in suite if case.find("error") is not None and case not in failed]
    suite.attrib |= {"tests": str(len(suite)), "failures": str(len(failed)), "errors": str(len(erred))}
