"""How quantities are shown: the title, the unit and the rank of each, for the text and the report alike.

The table is in order of importance. A quantity that is not in it, e.g. of a plugin's check, is shown with its own name
and unit. Latencies have a table of their own (latencies.py).

    shown_quantities([Quantity("quorum", "commit_gap_ms", 620, "ms")])   # longest commit gap: 0.62 s
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from harness.model import Quantity
from results.latencies import is_latency

Form = Callable[[float], str]


def duration_text(ms: float) -> str:
    """A duration as a person reads it: 0 s, 0.41 ms, 66 ms, 0.62 s, 13.8 s, 2 min 5 s."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 99.5:
        return f"{ms:.2g} ms" if ms else "0 s"
    if ms < 9_995:
        return f"{ms / 1000:.2f} s"
    if ms < 119_950:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes:,} min {seconds} s"


def number_text(value: float) -> str:
    """A number with at most three digits behind the point where it is small."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.3g}"


def _yes_or_no(value: float) -> str:
    return "yes" if value else "no"


def _per(unit: str) -> Form:
    return lambda value: f"{number_text(value)} per {unit}"


def is_time(name: str) -> bool:
    """Whether a quantity of this name is in milliseconds: by its suffix, or the words of harness.model.measures."""
    return name.endswith("_ms") or name.startswith(("time to ", "longest time ", "shortest time "))


@dataclass(frozen=True, slots=True)
class Display:
    """How a quantity is shown. detail: only the report shows it, unless the run's scenario expects something of it."""

    title: str
    form: Form
    detail: bool = False


DISPLAYS: Final[Mapping[str, Display]] = {
    "unavailable_ms_max": Display("longest time without a successful operation", duration_text),
    "commit_gap_ms": Display("longest commit gap", duration_text),
    "no_leader_ms": Display("time without a leader", duration_text),
    "two_leaders_ms": Display("longest time with two leaders", duration_text),
    "leader_deposed": Display("leader deposed", _yes_or_no),
    "leader_changes": Display("leader changes", number_text),
    "epochs_burned": Display("epochs burned", number_text),
    "stale_reads": Display("stale reads", number_text),
    "stale_read_ms_max": Display("oldest stale read", duration_text),
    "writers_open_at_heal": Display("transactions open at the last heal", number_text),
    "recovered": Display("quorum recovered after the last heal", _yes_or_no),
    "recover_ms": Display("time until the quorum recovered", duration_text),
    "clients_recovered": Display("clients recovered after the last heal", _yes_or_no),
    "clients_recover_ms": Display("time until clients recovered", duration_text),
    "ok_per_second": Display("successful operations", _per("second")),
    "partitions_compared": Display("partitions with several logs", number_text, detail=True),
    "partitions_with_equal_logs": Display("partitions whose logs are equal", number_text, detail=True),
    "log_end_max": Display("end of the longest log of a user's partition", number_text, detail=True),
    "committed_offsets_lost": Display("committed offsets that were lost", number_text, detail=True),
    "partition_offline_ms": Display("time that a partition had no leader", duration_text, detail=True),
    "truncation_rounds_max": Display("most responses that a truncation needed", number_text, detail=True),
    "voter_changes_acknowledged": Display("changes of the voters that were acknowledged", number_text, detail=True),
    "voter_changes_refused": Display("changes of the voters that were refused", number_text, detail=True),
    "voter_changes_unknown": Display("changes of the voters with an unknown outcome", number_text, detail=True),
    "voter_change_ms_max": Display("longest acknowledged change of the voters", duration_text, detail=True),
    "partition_moves_acknowledged": Display("moves of partitions that were acknowledged", number_text, detail=True),
    "partition_moves_refused": Display("moves of partitions that were refused", number_text, detail=True),
    "partition_moves_unknown": Display("moves of partitions with an unknown outcome", number_text, detail=True),
    "partition_move_ms_max": Display("longest acknowledged move of a partition", duration_text, detail=True),
    "ok_count": Display("operations that succeeded", number_text, detail=True),
    "fail_count": Display("operations that failed", number_text, detail=True),
    "info_count": Display("operations with an unknown outcome", number_text, detail=True),
    "leader_changes_until_heal": Display("leader changes before the last heal", number_text, detail=True),
    "epochs_burned_until_heal": Display("epochs burned before the last heal", number_text, detail=True),
    "leader_changes_per_minute": Display("leader changes", _per("minute"), detail=True),
    "epochs_per_minute": Display("epochs burned", _per("minute"), detail=True),
}
"""The most important first."""

_RANKS: Final = {name: rank for rank, name in enumerate(DISPLAYS)}
_FIRST_DETAIL: Final = next(rank for rank, display in enumerate(DISPLAYS.values()) if display.detail)


@dataclass(frozen=True, slots=True)
class ShownQuantity:
    """A quantity as text. expected: the run's scenario has an expectation of it."""

    name: str
    title: str
    text: str
    detail: bool
    expected: bool


def shown_quantities(quantities: Iterable[Quantity], expected: Collection[str] = ()) -> list[ShownQuantity]:
    """The quantities without latencies: those with these expected names, then the others by rank.

    Unknown quantities come before the details.
    """
    shown = [_shown(each, expected) for each in quantities if not is_latency(each)]
    return sorted(shown, key=lambda each: (not each.expected, _RANKS.get(each.name, _FIRST_DETAIL - 0.5)))


def _shown(quantity: Quantity, expected: Collection[str]) -> ShownQuantity:
    display = DISPLAYS.get(quantity.name) or _unknown(quantity)
    is_expected = quantity.name in expected
    text = display.form(quantity.value)
    return ShownQuantity(quantity.name, display.title, text, display.detail and not is_expected, is_expected)


def _unknown(quantity: Quantity) -> Display:
    """A name without its unit, and the unit as the check gave it."""
    words = quantity.name.split("_")
    if quantity.unit == "ms":
        return Display(" ".join(word for word in words if word != "ms"), duration_text)
    return Display(" ".join(words), lambda value: f"{number_text(value)} {quantity.unit}".strip())


def measured_text(name: str, value: float) -> str:
    """A measured quantity of this name in a sentence: `longest commit gap: 0.62 s`."""
    return f"{title_of(name)}: {quantity_text(name, value)}"


def title_of(name: str) -> str:
    """What a quantity of this name is called."""
    return _display_of(name).title


def quantity_text(name: str, value: float) -> str:
    """The value of a quantity of this name, as a person reads it."""
    return _display_of(name).form(value)


def _display_of(name: str) -> Display:
    return DISPLAYS.get(name) or _unknown(Quantity("", name, 0.0, "ms" if is_time(name) else ""))
