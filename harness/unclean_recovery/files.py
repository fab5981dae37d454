"""The two kinds of JSON file: partitions to recover, and partitions with their designated leaders.

    {"partitions": [{"topic": "foo", "partitions": [0, 3, 5]}]}                       # unclean-recovery reads it
    {"partitions": [{"topic": "foo", "partition": 1, "designatedLeader": 0}]}         # it writes, elect-leaders reads

Both are strict: another key, a number in quotes or a partition below 0 is BadInput that names the file and the place.
(The proposal's example of the first has keys without quotes, which is not JSON.) A partition that is listed twice is no
BadInput but the outcome of that partition.

The file that one tool writes is new, and complete or not there at all: a temporary file in the same folder is written,
synced and linked to its name. A link, unlike a rename, never replaces a file that has appeared meanwhile.

Contains the formats and the files. Does not contain what is done with the partitions.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.durable_files import sync_directory
from harness.model import BadInput
from harness.model.errors import reason_of
from harness.model.validation import Matching, dotted, first_problem
from harness.text_files import read_json
from harness.unclean_recovery.options import PARTITION_MAX, TOPIC_PATTERN, TOPIC_WORDS
from harness.unclean_recovery.partitions import TopicPartition

Topic = Annotated[str, Matching(TOPIC_PATTERN, TOPIC_WORDS)]
Number = Annotated[int, Field(ge=0, le=PARTITION_MAX)]
Model = TypeVar("Model", bound=BaseModel)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Topic(_Strict):
    topic: Topic
    partitions: list[Number]


class _Topics(_Strict):
    partitions: list[_Topic]


class _Partition(_Strict):
    topic: Topic
    partition: Number
    designated_leader: Number | None = Field(default=None, alias="designatedLeader")


class _Partitions(_Strict):
    partitions: list[_Partition]


@dataclass(frozen=True, slots=True)
class Listing:
    """The partitions of a file, in its order and each once; repeated are those that it lists more than once.

    leaders are the designated leaders, as far as the file names them.
    """

    partitions: tuple[TopicPartition, ...]
    repeated: frozenset[TopicPartition]
    leaders: Mapping[TopicPartition, int]


def read_partitions(path: Path) -> Listing:
    """The partitions to recover. Raises BadInput."""
    topics = _read(path, "a JSON file with topics and their partitions", _Topics)
    return _listing([TopicPartition(each.topic, number) for each in topics.partitions for number in each.partitions])


def read_designations(path: Path, with_leaders: bool) -> Listing:
    """The partitions to elect leaders of; with_leaders: each must have its designated leader. Raises BadInput."""
    entries = _read(path, "a JSON file with partitions and designated leaders", _Partitions).partitions
    for place, each in enumerate(entries):
        if with_leaders and each.designated_leader is None:
            raise BadInput(f"{path}: partitions.{place}.designatedLeader: expected a value, found nothing")
    leaders = {
        TopicPartition(each.topic, each.partition): each.designated_leader
        for each in entries
        if each.designated_leader is not None
    }
    return _listing([TopicPartition(each.topic, each.partition) for each in entries], leaders)


def designations_text(leaders: Mapping[TopicPartition, int]) -> str:
    """The content of a file that elect-leaders reads; one partition on a line, for review and changes."""
    rows = [
        json.dumps({"topic": each.topic, "partition": each.partition, "designatedLeader": leader})
        for each, leader in sorted(leaders.items())
    ]
    return '{"partitions": [\n' + ",\n".join(rows) + "\n]}\n"


def _listing(listed: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int] | None = None) -> Listing:
    counts = Counter(listed)
    repeated = frozenset(partition for partition, count in counts.items() if count > 1)
    return Listing(tuple(counts), repeated, leaders or {})


def _read(path: Path, expected: str, model: type[Model]) -> Model:
    value = read_json(path, expected)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = first_problem(error, model)
        place = f"{dotted(problem.path)}: " if problem.path else ""
        raise BadInput(f"{path}: {place}{problem}") from error


def refuse_existing(path: Path) -> None:
    """Raise BadInput, before anything else is done, if the file cannot be created."""
    if os.path.lexists(path):
        raise _exists(path)
    if not path.parent.is_dir():
        raise BadInput(f"{path}: expected a new file in an existing folder, found no folder {path.parent}")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadInput(f"{path}: expected a new file in a folder that can be written to: permission denied")


def create(path: Path, text: str) -> None:
    """Create the file. Raises BadInput if there is one of that name, or if it cannot be created."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
        sync_directory(path.parent)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise BadInput(f"{path}: expected a file that can be created: {reason_of(error)}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _exists(path: Path) -> BadInput:
    return BadInput(f"{path}: expected a new file, found an existing one, which is never replaced")
