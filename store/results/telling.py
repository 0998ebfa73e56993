"""A run told on one line, and how it ended in words. The wording stands here and nowhere else.

"ch07:transpose optimized: 2.31x (2.28 to 2.35) faster than baseline, H100, 5 processes, floor 0.4 %, run 01J..."
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aisp.store.outcomes import SUPERSEDED, State, Verdict
from aisp.store.results import busy, hardware
from aisp.store.results.numbers import number, percent
from aisp.store.results.outcome import STATE_WORDS, Outcome, of, of_run, state_words
from aisp.store.results.ranks import over_fastest, straggler
from aisp.store.text import clean_line

if TYPE_CHECKING:  # a list of targets has its words from here, and answers before msgspec is imported
    from aisp.store.record import Arm, Comparison, Run
    from aisp.store.results.reading import Reading

_AGAINST: Mapping[Verdict, str] = {
    Verdict.FASTER: "faster than {}",
    Verdict.SLOWER: "the speed of {}: slower",
    Verdict.SAME: "the speed of {}: the same",
    Verdict.UNDECIDED: "the speed of {}: undecided",
}


def run_word(run: Run) -> str:
    """A word for where a run is, or for how it ended."""
    return SUPERSEDED if run.superseded else STATE_WORDS[run.state]


def end_words(run: Run) -> str:
    """How a run ended that did not end well, and why: "failed: ...", "cancelled on request", "superseded by edit 4"."""
    why = run.reason or "no reason was given"
    return why if run.superseded else with_reason(state_words(run.state), why)


def with_reason(word: str, why: str) -> str:
    """A word for an end, and its reason, of which some begin with that word: "wrong values: y[3]: got ..."."""
    return why if why.startswith(word) else f"{word}: {why}" if why else word


def own_note(item: Comparison) -> str:
    """What is remarked of a comparison, for a line that has its rung's name in front."""
    return item.note.removeprefix(f"{item.rung}: ")


def line(run: Reading, facts: Mapping[str, object], processes: int = 0, *, rung: str = "") -> str:
    """The one line that one pastes into a pull request.

    Args:
        facts: what it ran on; empty where that was not kept.
        processes: in how many fresh processes samples were taken; 0 where that is not known.
        rung: tell it by this rung; "" by the one that the run is told by.
    """
    record, item = run.record, run.comparison(rung) if rung else run.headline
    ended = of(run, rung) if rung else of_run(run)
    doubted = ended.outcome is Outcome.SUSPECT
    about = [hardware.short(hardware.ran_on(record.device, facts)) or record.device]
    about += [f"{processes} process{'' if processes == 1 else 'es'}"] if processes else []
    about += ["quick"] if record.quick else []
    if not record.state.final:
        said = f"{record.target}: {run_word(record)}, and has not ended"
    elif record.state.void:  # what a check saw before decides nothing
        said = f"{record.target}: {end_words(record)}"
    elif bars := run.bars:
        said = f"{record.target} {'; '.join(bar.sentence for bar in bars)}"
    elif record.state is not State.OK:
        said = f"{record.target}: {end_words(record)}"
    elif item is None or not (ended.outcome.compared or doubted):
        said = f"{record.target}: {ended.word}, and nothing was compared"
    else:
        said = f"{record.target} {item.rung}: {f'{ended.word}, not a verdict: ' if doubted else ''}{compared(item)}"
        about += [f"floor {percent(item.floor, 1)}"] if item.floor is not None else []
        about += [where] if (where := run.judged(item)) else []
    about += [busy.sentence(met)] if (met := busy.of_run(record)) is not None else []
    return clean_line(", ".join([said, *about, f"run {record.id}"]), limit=1000)


def by_own_rule(arm: Arm) -> str:
    """What the problem's own rule says of a rung, beside ours; "" where it has none, or was not asked."""
    said = arm.rule
    if said is None:
        return ""
    if said.right is None:
        return f"its own rule ({said.name}) could not be asked: {said.detail}"
    if said.alone:
        told = f"judged by its own rule alone ({said.name})"
        return f"{told}; compared with the reference it would be wrong: {said.ours}" if said.ours else told
    word = "right" if said.right else "wrong"
    if not arm.correctness.known or said.right is not arm.correctness.wrong:
        return f"{word} by its own rule too ({said.name})" if arm.correctness.known else f"{word} by its own rule"
    return f"{word} by its own rule ({said.name}), which we do not share{f': {said.detail}' if said.detail else ''}"


def by_ranks(arm: Arm) -> str:
    """Whether one of several ranks holds the others up, and how nearly they begin together; "" for one process."""
    ranks = arm.ranks
    if ranks is None:
        return ""
    over = percent(over_fastest(ranks), 1)
    apart = f"they begin {number(ranks.skew_us, 2)} us apart (95 %: {number(ranks.skew_most_us, 2)})"
    rank = straggler(ranks)
    if rank is None:
        return f"no rank stands out (longest +{over}); {apart}"
    return f"rank {rank} takes {over} longer than the fastest; {apart}"


def compared(item: Comparison) -> str:
    """A comparison in words: "2.31x (2.28 to 2.35) faster than baseline"."""
    if item.verdict not in _AGAINST or item.speedup is None:
        return f"no verdict against {item.baseline}{f': {own_note(item)}' if item.note else ''}"
    low, high = number(item.low, 3), number(item.high, 3)
    return f"{number(item.speedup, 3)}x ({low} to {high}) {_AGAINST[item.verdict].format(item.baseline)}"
