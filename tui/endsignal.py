"""What a person who looks elsewhere is told: the terminal's title while something runs, and a signal when it ends.

Only texts are made here; `tui.driver` writes them. What stands in a title or a notification is on one line and holds
nothing that a terminal acts upon.
"""

from __future__ import annotations

from collections.abc import Mapping

from aisp.store.results import outcome
from aisp.store.text import clean_line
from aisp.tui.model import Model, RunView
from aisp.tui.results import run_word

LONG_S = 10.0  # what took less ends before anybody looks away
TITLE_CHARS = 80
BELL = "\a"


class EndSignals:
    """Follows a model: what the title says now, and what has just ended after a while."""

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}  # what was seen to go on, and since when, in ns of CLOCK_MONOTONIC
        self._last = ""  # title of what ended last

    def look(self, model: Model) -> tuple[str, list[str]]:
        """The title, "" where nothing runs or ever ran, and a sentence for each that ended after over LONG_S."""
        now_ns = model.now_ns()
        going: dict[str, int] = {}
        for run in model.active_runs():
            if run.record.start_ns is not None:
                going[run.id] = run.record.start_ns
        for fuzz in model.active_fuzzes():
            if fuzz.case_count:
                going[fuzz.id] = self._under_way.get(fuzz.id, now_ns)
        ended = []
        for job_id, since_ns in self._under_way.items():
            if job_id in going or (told := _ended(model, job_id)) is None:
                continue
            self._last = f"aisp: {told}"
            if (now_ns - since_ns) / 1e9 > LONG_S:
                ended.append(told)
        self._under_way = going
        return clean_line(_title(model, now_ns) or self._last, limit=TITLE_CHARS), ended


def _title(model: Model, now_ns: int) -> str:
    """What runs, and which part of how many: it changes seldom, so that it costs next to nothing."""
    runs = [run for run in model.active_runs() if run.record.start_ns is not None]
    if runs:
        far = runs[0].progress(now_ns)
        return f"aisp: {runs[0].record.target}{f' {far.at}/{far.planned}' if far.at and far.planned else ''}"
    fuzzes = [fuzz for fuzz in model.active_fuzzes() if fuzz.case_count]
    if fuzzes:
        share = fuzzes[0].progress(now_ns).share
        tenths = "" if share is None else f" {int(share * 10) * 10} %"
        return f"aisp: {fuzzes[0].what} {fuzzes[0].target}{tenths}"
    return ""


def _ended(model: Model, job_id: str) -> str | None:
    """How a job ended, in a few words; None where it did not."""
    run, fuzz = model.runs.get(job_id), model.fuzzes.get(job_id)
    if run is not None and run.record.state.final:
        return clean_line(f"{run.record.target} {_run_words(run)}")
    if fuzz is not None and fuzz.state.final:
        return clean_line(f"{fuzz.what} of {fuzz.target} {fuzz.state.value}, {fuzz.total.failing} failing")
    return None


def _run_words(run: RunView) -> str:
    ended, item = outcome.of_run(run), run.headline
    if ended.outcome.compared and item is not None and item.speedup is not None:
        return f"{ended.word} {item.speedup:.2f}x"
    return run_word(run.record) if run.record.superseded else ended.word


SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"  # on the terminal's own stack


def title_sequence(text: str) -> str:
    return f"\x1b]2;{clean_line(text, limit=TITLE_CHARS)}\x1b\\"


def notice_sequence(how: str, text: str, env: Mapping[str, str]) -> str:
    """Rings, or notifies with `text`; "" for "off".

    Args:
        how: "off", "bell", "osc9" (iTerm2, WezTerm, kitty, Windows Terminal) or "osc777" (Ghostty, foot, urxvt, VTE).
        env: the environment: tmux hands a notification on only in a wrapping of its own.
    """
    told = clean_line(text, limit=200)
    match how:
        case "bell":
            return BELL
        case "osc9":
            sent = f"\x1b]9;aisp: {told}\x1b\\"
        case "osc777":
            sent = f"\x1b]777;notify;aisp;{told}\x1b\\"
        case _:
            return ""
    if env.get("TMUX"):
        return "\x1bPtmux;" + sent.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    return sent
