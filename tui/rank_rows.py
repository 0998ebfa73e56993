"""The ranks of an arm as lanes, one below the other: from when the first of them left the barrier, how late each one
began and how long it took, to one scale; and the same in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from aisp.store.results.ranks import straggler
from aisp.store.results.telling import by_ranks
from aisp.tui import plain

if TYPE_CHECKING:
    from aisp.store.record import Arm, Rank
    from aisp.tui.model import RunView

LEAST_BAR = 12  # cells; where a lane has fewer, words give way to it
_SIGNS = {False: ("░", "━"), True: (".", "=")}  # late, at work


def chosen_arm(run: RunView, chosen: str | None) -> Arm | None:
    """The arm whose ranks are shown: the chosen one, else the run's lead, else the first that has ranks."""
    arms = {arm.rung: arm for arm in run.record.arms if arm.ranks is not None}
    lead = run.lead.rung if run.lead is not None else ""
    return next((arms[name] for name in (chosen, lead, *arms) if name in arms), None)


def rank_rows(arm: Arm, width: int, ascii: bool) -> list[Text]:
    """A title and a lane for each rank; nothing where one process is the arm."""
    ranks = arm.ranks
    if ranks is None:
        return []
    rows = [Text(f"{arm.rung}: {by_ranks(arm)}", "dim")]
    longest_ms = max(rank.late_us / 1e3 + rank.median_ms for rank in ranks.each)
    names = [f"rank {number}" for number in range(len(ranks.each))]
    left = max(map(len, names)) + 1
    words = [_words(rank) for rank in ranks.each]
    room = _room(words, width - left)
    while room < LEAST_BAR and len(words[0]) > 1:
        words = [each[:-1] for each in words]
        room = _room(words, width - left)
    bar, held_up_by = max(room, 1), straggler(ranks)
    late_sign, sign = _SIGNS[ascii]
    for number, rank in enumerate(ranks.each):
        first = round(rank.late_us / 1e3 / longest_ms * bar)
        last = max(round((rank.late_us / 1e3 + rank.median_ms) / longest_ms * bar), first + 1)
        stands_out = number == held_up_by
        row = Text(f"{names[number]:<{left}}", "bold" if stands_out else "", no_wrap=True)
        row.append(late_sign * first, "dim not bold")
        row.append(sign * (last - first))
        row.append(" " * (bar - last + 2) + "  ".join(words[number]), "" if stands_out else "not bold")
        rows.append(row)
    return rows


def _room(words: Sequence[Sequence[str]], width: int) -> int:
    return width - 2 - max(len("  ".join(each)) for each in words)


def rank_lines(arm: Arm) -> list[str]:
    if arm.ranks is None:
        return []
    each = (" ".join(", ".join(_words(rank)).split()) for rank in arm.ranks.each)
    return [by_ranks(arm), *(f"rank {number}: {words}" for number, words in enumerate(each))]


def _words(rank: Rank) -> list[str]:
    """What is said of a rank, the most important first; each in as many cells on every row."""
    found = [
        f"{plain.number(rank.median_ms, 4):>7} ms",
        f"slowest in {plain.percent(rank.slowest_share):>5}",
        f"{plain.quantity(rank.late_us / 1e6, 's'):>7} late",
    ]
    return found + ([f"{plain.megahertz(rank.sm_clock_mhz)} MHz"] if rank.sm_clock_mhz is not None else [])
