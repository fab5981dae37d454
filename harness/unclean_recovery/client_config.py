"""`--command-config FILE`: how the cluster is reached, in the properties file that Kafka's tools read.

    security.protocol=SASL_PLAINTEXT sasl.mechanism=PLAIN
    sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice"
    password="secret"; request.timeout.ms=20000

Other keys of Kafka's clients are ignored, as Kafka's tools ignore what they do not use. A key of security.*, sasl.* or
ssl.* that is not supported is BadInput: without it the connection would not be what the file asks for.

Contains the format of properties files as far as clients use it: comments, `=` and `:`, and lines that are continued.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.model import BadInput
from harness.model.shown_values import listed, shown
from harness.text_files import read_text
from harness.unclean_recovery.access import AccessSettings
from harness.unclean_recovery.options import MILLISECONDS_MAX
from nodes.wire.sasl import MECHANISM, Plain

PROTOCOLS: Final = ("PLAINTEXT", "SASL_PLAINTEXT")
SECURITY: Final = ("security.", "sasl.", "ssl.")
NUMBERS: Final = {
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "backoff_ms",
    "retry.backoff.max.ms": "backoff_ms_max",
}
"""Kafka's keys for our settings, each a number of milliseconds, 1 or more."""
KNOWN: Final = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")

PAIR: Final = re.compile(r"(?P<key>[^=:\s]+)\s*(?:[=:]\s*|\s|$)(?P<value>.*)")
JAAS: Final = re.compile(
    r'(?:[\w.]*\.)?PlainLoginModule\s+required\s+(?P<options>(?:\w+\s*=\s*"(?:[^"\\]|\\.)*"\s*)*);'
)
OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def settings_of(path: Path | None) -> AccessSettings:
    """The settings in a file, or those without one.

    Raises BadInput that names the file and the key, and never shows a password.
    """
    if path is None:
        return AccessSettings()
    properties = dict(_pairs(path, read_text(path, "a properties file")))
    for key in properties:
        if key.startswith(SECURITY) and key not in KNOWN:
            raise BadInput(f"{path}: {key}: expected one of {', '.join(KNOWN)} or no security, which is all there is")
    given: dict[str, Any] = {"credentials": _credentials(path, properties)}
    given |= {field: _number(path, key, properties[key]) for key, field in NUMBERS.items() if key in properties}
    return AccessSettings(**given)


def _credentials(path: Path, properties: Mapping[str, str]) -> Plain | None:
    protocol = properties.get("security.protocol", PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        raise BadInput(f"{path}: security.protocol: expected {listed(PROTOCOLS)}, found {shown(protocol)}")
    if protocol == PROTOCOLS[0]:
        return None
    mechanism = properties.get("sasl.mechanism", "GSSAPI")  # Kafka's default
    if mechanism != MECHANISM:
        raise BadInput(f"{path}: sasl.mechanism: expected {MECHANISM}, found {shown(mechanism)}")
    module = JAAS.fullmatch(properties.get("sasl.jaas.config", "").strip())
    options = {} if module is None else {key: _unescaped(value) for key, value in OPTION.findall(module["options"])}
    if not {"username", "password"} <= options.keys():
        expected = 'PlainLoginModule required username="…" password="…";'
        raise BadInput(f"{path}: sasl.jaas.config: expected {expected}, found something else")
    return Plain(options["username"], options["password"])


def _number(path: Path, key: str, text: str) -> int:
    value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else 0
    if not 0 < value <= MILLISECONDS_MAX:
        raise BadInput(f"{path}: {key}: expected a number of milliseconds from 1 on, found {shown(text)}")
    return value


def _pairs(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for number, line in _logical_lines(text):
        pair = PAIR.fullmatch(line)
        if pair is None:
            raise BadInput(f"{path}: line {number}: expected key=value")
        yield pair["key"], pair["value"].strip()


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, each with its number; a backslash at the end continues a line."""
    parts: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not parts and (not stripped or stripped[0] in "#!"):
            continue
        is_continued = stripped.endswith("\\")
        parts.append(stripped[:-1] if is_continued else stripped)
        if not is_continued:
            yield number, "".join(parts)
            parts = []
    if parts:
        yield len(text.splitlines()), "".join(parts)


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value)
