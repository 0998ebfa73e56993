"""The pane of text of a run's screen: why it failed, what the samples say, every step, or what the kernels printed."""

from __future__ import annotations

from aisp.tui import readings, steps
from aisp.tui.model import BASELINE, RunView
from aisp.tui.screens.base import entitle
from aisp.tui.screens.exporting import ExportingScreen
from aisp.tui.widgets.logpane import LogPane

TALL_ROWS = 36
NOTHING = "nothing"  # what the pane shows where somebody put away what it had shown by itself


class RunTextScreen(ExportingScreen):
    """Base of that screen: the pane is its LogPane `text`, the highlighted rung that of its table."""

    def __init__(self) -> None:
        super().__init__()
        self.zoomed = False  # whether the rungs, with all that is said of them, have the screen
        self.mode = ""  # what the pane shows: "samples", "steps", "output", NOTHING; "" for what fits the run
        self._lines_seen = -1  # lines of output that the pane holds; -1 where it holds something else

    @property
    def run_view(self) -> RunView | None:
        """The run as far as it is known: live, or as stored where the live view has holes."""
        raise NotImplementedError

    def share_rows(self) -> None:
        raise NotImplementedError

    def _mode(self, run: RunView) -> str:
        """What the pane of text shows now; "" where it is not needed."""
        if self.zoomed and self.mode in ("", NOTHING):
            return "samples"
        if self.mode:
            return "" if self.mode == NOTHING else self.mode
        if readings.detail_lines(run):
            return "detail"
        if self.has_class("-wide") and self.size.height >= TALL_ROWS:
            return (
                "output" if run.output_count else "samples" if run.comparisons and run.record.state.final else "steps"
            )
        return ""

    def _draw_text(self, run: RunView) -> None:
        pane = self.query_one("#text", LogPane)
        mode = self._mode(run)
        if mode == "output":
            new = run.output_count - self._lines_seen
            if self._lines_seen < 0 or new > len(run.output):
                pane.clear()
                new = len(run.output)
            if run.output_count:
                pane.extend([f"{arm}: {line}" for arm, line in list(run.output)[-new:]] if new else [])
                self._lines_seen = run.output_count
            else:
                pane.tell(mode, lambda: ["the kernels printed nothing"])
            dropped = f", {run.output_dropped} more left out by the engine" if run.output_dropped else ""
            title = f"output: {run.output_count} lines{dropped}"
        else:
            chosen = self.table.cursor_key
            if mode == "steps":
                title, lines = "steps", steps.step_lines(run)
            elif mode == "samples":
                picked = chosen if self.mode or chosen != BASELINE else None
                title, lines = "what the samples say", readings.sample_lines(run, self.workbench.ascii, picked)
            else:
                title, lines = "why", readings.detail_lines(run, chosen)
            self._lines_seen = -1
            pane.prose(lines or ["nothing went wrong"], labelled=mode == "samples")
        entitle(pane, title)

    def action_output(self) -> None:
        self._toggle("output")

    def action_samples(self) -> None:
        """Show what the samples say: of the highlighted rung first, of the fastest where none was highlighted yet."""
        run = self.run_view
        begins = run is not None and self._mode(run) != "samples"
        if begins and run is not None and run.lead is not None and self.rung_name == BASELINE:
            self.table.move_to(run.lead.rung)
        self._toggle("samples")

    def action_steps(self) -> None:
        self._toggle("steps")

    def _toggle(self, mode: str) -> None:
        """Show this in the pane of text; where it stands there, show what fits the run, or nothing if that is it."""
        run = self.run_view
        if run is None:
            return
        if self._mode(run) != mode:
            self.mode = mode
        else:
            self.mode = ""
            if self._mode(run) == mode:
                self.mode = NOTHING
        self._lines_seen = -1
        self.share_rows()
        self._draw_text(run)

    def copy_text(self) -> str:
        run = self.run_view
        if run is not None and self.focused is not None and self.focused.id == "text" and self._mode(run) == "output":
            return "\n".join(f"{arm}: {line}" for arm, line in run.output)
        return ""
