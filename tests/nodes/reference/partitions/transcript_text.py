"""How the transcripts of partitions write logs and messages. Brokers 1, 2, 3 are A, B, C, as in KIP-279."""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from nodes.reference.core.partitions import messages
from nodes.reference.core.partitions.memory_log import MemoryLog
from nodes.reference.core.partitions.questions import (
    EndOfEpoch,
    EpochAnswer,
    KnownEpoch,
    LargestEpoch,
    Lineage,
    Question,
)
from nodes.wire.batches import BatchHead, heads


def letter(node: int) -> str:
    """A broker's name."""
    return chr(ord("A") + node - 1)


def show_log(log: MemoryLog) -> str:
    """The batches, e.g. `1:[0,10] 1:[11,20]`: epoch, first and last offset."""
    return " ".join(_batch(head) for _, head in log.batches(0)) or "nothing"


def show_message(message: Any) -> str:
    """A message about one partition; errors by name."""
    match message:
        case messages.EpochRequest(questions=questions):
            return " ".join(_question(each.question) for each in questions.values())
        case messages.EpochResponse(answers):
            return " ".join(map(_answer, answers.values()))
        case messages.FetchRequest(partitions=partitions):
            return " ".join(map(_wanted, partitions.values()))
        case messages.FetchResponse(results):
            return " ".join(map(_fetched, results.values()))
        case messages.ProduceResponse(produced):
            return " ".join(_error(each.error) or f"first offset {each.base_offset}" for each in produced.values())
        case messages.OffsetsRequest(questions=asked):
            return " ".join(f"ListOffsets {each.timestamp_ms}" for each in asked.values())
        case messages.OffsetsResponse(offsets):
            return " ".join(
                _error(each.error) or f"offset {each.offset} of epoch {each.leader_epoch}" for each in offsets.values()
            )
    return str(message)


def show_proposal(request: messages.IsrRequest) -> str:
    """What a leader wants."""
    return " ".join(f"for isr {','.join(letter(node) for node, _ in each.isr)}" for each in request.proposals)


def _question(question: Question) -> str:
    match question:
        case EndOfEpoch(epoch):
            return f"OffsetForLeaderEpoch v0 epoch={epoch}"
        case LargestEpoch(epoch):
            return f"OffsetForLeaderEpoch epoch={epoch}"
        case KnownEpoch(epoch):
            return f"OffsetForKnownEpoch epoch={epoch}"
        case Lineage(ends):
            return f"OffsetForLineage {' '.join(f'({each.epoch},{each.end_offset})' for each in ends)}"


def _answer(answer: EpochAnswer) -> str:
    if answer.is_unknown:
        return "UNKNOWN_OFFSET_FOR_LEADER_EPOCH"
    epoch = f"leader_epoch={answer.epoch} " if answer.epoch >= 0 else ""
    return _error(answer.error) or f"{epoch}offset={answer.end_offset}"


def _wanted(wanted: messages.FetchPartition) -> str:
    last = f" last epoch={wanted.last_epoch}" if wanted.last_epoch >= 0 else ""
    return f"Fetch offset={wanted.offset}{last}"


def _fetched(result: messages.FetchResult) -> str:
    if result.error is not ErrorCode.none:
        return _error(result.error)
    if result.diverging is not None:
        return f"diverging: epoch {result.diverging.epoch} ends at {result.diverging.end_offset}"
    batches = " ".join(map(_batch, heads(result.data))) or "nothing new"
    return f"{batches}, high watermark {result.high_watermark}"


def _batch(head: BatchHead) -> str:
    epoch = "-" if head.leader_epoch < 0 else head.leader_epoch
    return f"{epoch}:[{head.base_offset},{head.last_offset}]"


def _error(error: ErrorCode) -> str:
    return "" if error is ErrorCode.none else f"error {error.name}"
