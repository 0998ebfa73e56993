"""All our widgets on one screen, fed by a made-up stream: `python -m tests.tui.demo_widgets [--theme NAME]`.

Keys: tab moves between panes, z zooms one, T changes the theme, G the graph style, p pauses, q leaves.
"""

from __future__ import annotations

import argparse
import math
import random
from array import array
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from aisp.tui import themes
from aisp.tui.driver import BackloggedDriver, has_backlog
from aisp.tui.widgets.diffview import DiffView
from aisp.tui.widgets.glyphs import GraphStyle, detect
from aisp.tui.widgets.logpane import LogPane
from aisp.tui.widgets.plot import Lane, LivePlot, Series
from aisp.tui.widgets.table import Column, LiveTable

LEFT = '''"""Naive: one thread block per row, three passes over the data."""

import torch


def run(x, weight, eps):
    square = x.float() * x.float()
    mean = square.mean(dim=-1, keepdim=True)
    root = torch.sqrt(mean + eps)
    return (x.float() / root * weight.float()).to(x.dtype)


def unused(a, b):
    """Stays as it is."""
    for index in range(10):
        print(index, a, b)
    return a + b


def more(a):
    return a
'''
RIGHT = '''"""Fused: one kernel, one pass over the data."""

import torch
import triton


def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def unused(a, b):
    """Stays as it is."""
    for index in range(10):
        print(index, a, b)
    return a + b


def more(a, scale=1.0):
    return a * scale  # 幅 wide 漢字 and 🚀
'''


class Demo(App[None]):
    """The demonstration."""

    CSS = """
    LivePlot { height: 2fr; }
    LiveTable { width: 2fr; }
    LogPane { width: 1fr; border-left: solid $panel; }
    DiffView { height: 3fr; border-top: solid $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("z", "zoom", "Zoom"),
        Binding("T", "next_theme", "Theme"),
        Binding("S", "next_style", "Style"),
        Binding("p", "pause", "Pause"),
    ]

    def __init__(self, theme: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        themes.register(self)
        self.theme = theme
        self.graph_style = detect({}, "utf-8")
        self.x, self.a, self.b, self.clock = array("d"), array("d"), array("d"), array("d")
        self.paused = False
        self.random = random.Random(7)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield LivePlot()
            with Horizontal():
                yield LiveTable(
                    [
                        Column("target", "target", ratio=1),
                        Column("verdict", "verdict", 10),
                        Column("ms", "median ms", 9, "right"),
                        Column("n", "samples", 8, "right"),
                        Column("note", "note", ratio=2),
                    ]
                )
                yield LogPane()
            yield DiffView()

    def on_mount(self) -> None:
        self.query_one(DiffView).show(LEFT, RIGHT, left_title="baseline.py", right_title="optimized.py")
        self.query_one(LiveTable).focus()
        self.set_interval(0.1, self.tick)

    def tick(self) -> None:
        if self.paused or has_backlog(self):
            return
        rng = self.random
        for _ in range(20):
            now = len(self.x) / 200
            self.x.append(now)
            self.a.append(2.1 + rng.gauss(0, 0.04) + (60 if rng.random() < 0.002 else 0))
            self.b.append(1.2 + 0.1 * math.sin(now / 3) + rng.gauss(0, 0.02))
            self.clock.append(1980 - 60 * (math.sin(now / 5) > 0.7))
        self.query_one(LivePlot).show(
            [
                Series("baseline", self.x, self.a),
                Series("optimized", self.x, self.b),
            ],
            lanes=[Lane("SM clock MHz", [Series("SM clock", self.x, self.clock, mark="line")])],
        )
        ascii_only = self.graph_style is GraphStyle.ASCII
        verdicts = ("faster", "slower", "same", "undecided", "none")
        self.query_one(LiveTable).show(
            [
                (
                    f"t{n}",
                    [
                        f"ch{n % 20:02}:target_{n} 転置" if n % 4 == 0 else f"ch{n % 20:02}:target_{n}",
                        themes.verdict_text(verdicts[n % 5], 1.83 / (1 + n % 3), ascii_only),
                        f"{self.b[-1]:.3f}" if n == 1 else f"{1 + n / 7:.3f}",
                        str(len(self.x)) if n < 2 else "–",
                        "[bold]not markup[/] \x1b[31m" if n == 2 else "needs sm_90",
                    ],
                )
                for n in range(40)
            ]
        )
        self.query_one(LogPane).extend([f"{len(self.x):6} iteration took {self.b[-1]:.4f} ms"])

    def action_zoom(self) -> None:
        if self.screen.maximized:
            self.screen.minimize()
        elif self.focused is not None:
            self.screen.maximize(self.focused)

    def action_next_theme(self) -> None:
        names = [*themes.THEME_NAMES, "textual-dark", "ansi-dark"]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]

    def action_next_style(self) -> None:
        styles = list(GraphStyle)
        self.graph_style = styles[(styles.index(self.graph_style) + 1) % len(styles)]
        for widget in (LivePlot, LiveTable, DiffView, LogPane):
            self.query_one(widget).refresh()
        self.query_one(LivePlot).redraw()

    def action_pause(self) -> None:
        self.paused = not self.paused


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--theme", default="aisp-dark")
    Demo(parser.parse_args().theme, driver_class=BackloggedDriver).run()
