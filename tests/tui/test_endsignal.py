"""What a person who looks elsewhere is told: the window's title, and a signal at the end of what took a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aisp.tui.driver import windowed
from aisp.tui.endsignal import EndSignals, notice_sequence, title_sequence
from aisp.tui.model import Model
from aisp.tui.settings import Settings, load_settings
from tests import heard
from tests.tui.app_support import opened, until
from tests.tui.fakes import START_NS, FakeLink, quick_run_events, run_under_way, status_event

S = 10**9


def model_at(seconds: float) -> Model:
    return Model(clock_ns=lambda: START_NS + int(seconds * S))


def test_the_title_says_what_runs_and_how_far_and_then_how_it_ended() -> None:
    model, signals = model_at(0.0), EndSignals()
    assert signals.look(model) == ("", [])
    model.apply(run_under_way(begun_s=(0.0, 5.0, 9.0)))
    assert signals.look(model) == ("aisp: ch05:collate 3/5", [])
    model.clock_ns = lambda: START_NS + 30 * S
    model.apply(quick_run_events(quick=False)[-3:])
    assert signals.look(model) == ("aisp: ch05:collate faster 2.31x", ["ch05:collate faster 2.31x"])
    assert signals.look(model) == ("aisp: ch05:collate faster 2.31x", [])


@pytest.mark.parametrize(("took_s", "told"), [(9.9, 0), (10.1, 1)])
def test_only_the_end_of_what_took_a_while_is_signalled(took_s: float, told: int) -> None:
    model, signals = model_at(0.0), EndSignals()
    model.apply(run_under_way())
    signals.look(model)
    model.clock_ns = lambda: START_NS + int(took_s * S)
    model.apply(quick_run_events(quick=False)[-3:])
    assert len(signals.look(model)[1]) == told


def test_what_ended_before_it_was_seen_to_go_on_is_not_signalled() -> None:
    """As a journal tells it after a reconnect."""
    model = model_at(3600.0)
    model.apply(quick_run_events())
    assert EndSignals().look(model) == ("", [])


def test_a_run_that_failed_and_one_that_waits() -> None:
    model, signals = model_at(0.0), EndSignals()
    model.apply([heard.planned(run_id="W1", target="mine:waits", rungs=["baseline"])])
    assert signals.look(model) == ("", [])
    model.apply(run_under_way("R2"))
    assert signals.look(model)[0] == "aisp: ch05:collate 1/5"
    model.apply([heard.finished(run_id="R2", target="ch05:collate", state="cancelled", reason="cancelled on request")])
    assert signals.look(model)[0] == "aisp: ch05:collate cancelled"


def test_a_text_cannot_reach_the_terminal_as_a_sequence() -> None:
    evil = "x\x1b]0;owned\x07\x9b31m\ny"
    for sent in (
        title_sequence(evil),
        notice_sequence("osc9", evil, {}),
        notice_sequence("osc777", evil, {}),
    ):
        inner = sent.removeprefix("\x1b]").removesuffix("\x1b\\")
        assert inner.isprintable()


def test_how_it_is_told() -> None:
    assert notice_sequence("off", "done", {}) == ""
    assert notice_sequence("bell", "done", {"TMUX": "/tmp/x"}) == "\a"
    assert notice_sequence("osc9", "done", {}) == "\x1b]9;aisp: done\x1b\\"
    assert notice_sequence("osc777", "done", {}) == "\x1b]777;notify;aisp;done\x1b\\"
    wrapped = notice_sequence("osc9", "done", {"TMUX": "/tmp/x"})
    assert wrapped == "\x1bPtmux;\x1b\x1b]9;aisp: done\x1b\x1b\\\x1b\\"


def test_a_console_has_no_title() -> None:
    assert windowed({"TERM": "xterm-256color"}) and windowed({"TERM": "tmux-256color", "LANG": "C"})
    assert not windowed({"TERM": "linux"}) and not windowed({"TERM": "vt100"})


def test_a_value_that_is_none_of_them_is_told(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('notify = "loud"\n')
    settings, (problem,) = load_settings(file)
    assert settings.notify == "off" and 'write one of notify = "off", "bell", "osc9" or "osc777"' in problem


async def test_the_app_hands_both_to_its_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISP_STATE", str(tmp_path / "state"))
    link = FakeLink(run_under_way())
    link.engine_status = status_event(gpu=False)
    clock = {"s": 1.0}
    link.model.clock_ns = lambda: START_NS + int(clock["s"] * S)
    said: list[Any] = []
    async with opened(tmp_path, link=link, settings=Settings(graph="braille", notify="bell")) as (app, pilot):
        monkeypatch.setattr(app._driver, "set_title", said.append, raising=False)
        monkeypatch.setattr(app._driver, "tell_end", lambda how, text: said.append((how, text)), raising=False)
        link.push(heard.state(run_id="R1", state="running", at_ns=START_NS + S, process=2))
        await until(pilot, lambda: "aisp: ch05:collate 2/5" in said)
        clock["s"] = 60.0
        link.push(*quick_run_events(quick=False)[-3:])
        await until(pilot, lambda: ("bell", "ch05:collate faster 2.31x") in said)
    assert said[-2:].count(("bell", "ch05:collate faster 2.31x")) == 1
