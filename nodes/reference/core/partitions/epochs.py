"""A log's leader epochs and where each begins: KIP-101's Leader Epoch Sequence, and the answers it gives.

    sequence = EpochSequence().assigned(1, 0).assigned(3, 21)
    sequence.end_of(2, log_end=31)              # EpochEnd(1, 21): what KIP-279's leader answers to epoch 2
    sequence.offset_by_kip_101(2, log_end=31)   # 21: what KIP-101's leader answers, without saying of which epoch

Contains values and pure functions; a log replaces its sequence when it changes. Does not contain files: `text` and
`parsed` are the contents of Kafka's leader-epoch-checkpoint.

The answers and their edges are those of Kafka's LeaderEpochFileCache, up to 1.1 for KIP-101's and since 2.0 for
KIP-279's. `end_of_by_letter` is KIP-279's text, where it differs from Kafka.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from nodes.reference.core.messages import EpochEnd

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
UNDEFINED: Final = EpochEnd(NO_EPOCH, NO_OFFSET)
"""The answer of a leader that knows none: UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET."""

_VERSION = 0


class EpochStart(NamedTuple):
    """An epoch and the offset of its first record; of a leader's own epoch, that of the first it would append."""

    epoch: int
    offset: int


@dataclass(frozen=True, slots=True)
class EpochSequence:
    """Epochs and their first offsets, both strictly increasing."""

    starts: tuple[EpochStart, ...] = ()

    def __post_init__(self) -> None:
        assert all(a.epoch < b.epoch and a.offset < b.offset for a, b in pairwise(self.starts)), self.starts

    @property
    def latest(self) -> int:
        """The latest epoch; NO_EPOCH if none is known."""
        return self.starts[-1].epoch if self.starts else NO_EPOCH

    def assigned(self, epoch: int, offset: int) -> EpochSequence:
        """With an epoch that begins here, if it is not known. Entries that contradict it go, as in Kafka."""
        if epoch < 0 or (epoch == self.latest and offset >= self.starts[-1].offset):
            return self
        kept = tuple(each for each in self.starts if each.epoch < epoch and each.offset < offset)
        return EpochSequence((*kept, EpochStart(epoch, offset)))

    def truncated_from_end(self, end_offset: int) -> EpochSequence:
        """Without the epochs that begin at or after the end of the log."""
        return EpochSequence(tuple(each for each in self.starts if each.offset < end_offset))

    def truncated_from_start(self, start_offset: int) -> EpochSequence:
        """Without the epochs that end before the start of the log; that which contains it begins there."""
        passed = [each for each in self.starts if each.offset <= start_offset]
        if not passed:
            return self
        return EpochSequence((EpochStart(passed[-1].epoch, start_offset), *self.starts[len(passed) :]))

    def __contains__(self, epoch: int) -> bool:
        return any(each.epoch == epoch for each in self.starts)

    def below(self, epoch: int) -> int:
        """The largest known epoch that is smaller; NO_EPOCH if there is none."""
        return max((each.epoch for each in self.starts if each.epoch < epoch), default=NO_EPOCH)

    def at(self, offset: int) -> int:
        """The epoch of the record at this offset; NO_EPOCH before the first known one."""
        number = bisect.bisect_right(self.starts, offset, key=lambda each: each.offset)
        return self.starts[number - 1].epoch if number else NO_EPOCH

    def ends(self, log_end: int) -> Sequence[EpochEnd]:
        """Each epoch and its end, the oldest first."""
        after = [each.offset for each in self.starts[1:]] + [log_end]
        return [EpochEnd(each.epoch, end) for each, end in zip(self.starts, after, strict=False)]

    def offset_by_kip_101(self, epoch: int, log_end: int) -> int:
        """KIP-101: where the first larger epoch begins, or the log's end; NO_OFFSET if it knows neither."""
        if not self.starts or epoch < self.starts[0].epoch:
            return NO_OFFSET
        if epoch == self.latest:
            return log_end
        return min((each.offset for each in self.starts if each.epoch > epoch), default=NO_OFFSET)

    def end_of(self, epoch: int, log_end: int) -> EpochEnd:
        """KIP-279 as Kafka has it: the largest epoch up to this one, and its end.

        An epoch that is larger than all known ones is UNDEFINED. One that is smaller ends where the first known one
        begins.
        """
        if epoch == NO_EPOCH or epoch > self.latest:
            return UNDEFINED
        if epoch < self.starts[0].epoch:
            return EpochEnd(epoch, self.starts[0].offset)
        return self._largest_up_to(epoch, log_end)

    def end_of_by_letter(self, epoch: int, log_end: int) -> EpochEnd:
        """KIP-279's text: the largest epoch less than or equal to this one, and its end; else UNDEFINED."""
        return self._largest_up_to(epoch, log_end)

    def _largest_up_to(self, epoch: int, log_end: int) -> EpochEnd:
        return next((each for each in reversed(self.ends(log_end)) if each.epoch <= epoch), UNDEFINED)

    def text(self) -> str:
        """The contents of the file leader-epoch-checkpoint."""
        lines = (f"{each.epoch} {each.offset}" for each in self.starts)
        return "".join(f"{line}\n" for line in (_VERSION, len(self.starts), *lines))

    @classmethod
    def parsed(cls, text: str) -> EpochSequence:
        """The sequence of a file's contents. Raises ValueError, which names what was expected and what came."""
        version, count, *lines = text.split("\n")[:-1] if text.count("\n") >= 2 else ("", "")
        if version != str(_VERSION) or count != str(len(lines)):
            raise ValueError(
                f"epochs: expected version {_VERSION} and as many entries as the second line says: {text!r}"
            )
        pairs = [[int(word) for word in line.split(" ")] for line in lines]
        if any(len(pair) != 2 for pair in pairs):
            raise ValueError(f"epochs: expected an epoch and an offset in each line: {text!r}")
        starts = tuple(EpochStart(*pair) for pair in pairs)
        if not all(a.epoch < b.epoch and a.offset < b.offset for a, b in pairwise(starts)):
            raise ValueError(f"epochs: expected increasing epochs and offsets: {text!r}")
        return cls(starts)
