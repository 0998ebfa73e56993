"""What the screen of a fuzz makes of a failure: all about the highlighted one, its script, doing it again."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.content import Content

from aisp.engine.protocol import requests
from aisp.store.results.fuzz import case_text
from aisp.tui import fuzzes
from aisp.tui.aside import begin
from aisp.tui.fuzzes import FuzzView
from aisp.tui.screens.base import WorkScreen, entitle
from aisp.tui.screens.source import SourceView
from aisp.tui.widgets.lines import Refitted
from aisp.tui.widgets.logpane import LogPane

if TYPE_CHECKING:
    from aisp.store.record import Failure


class FailureScreen(WorkScreen):
    """Base of that screen, which has the panes `cases`, `failures`, `detail` and `script`."""

    main_table = "failures"
    chooses = "failure"

    def __init__(self, target_id: str) -> None:
        super().__init__(target_id)
        self._replaying: set[str] = set()  # failures whose replay was asked for here and has not ended
        self._replay_ids: dict[str, str] = {}  # failure by the id of its replay

    @property
    def fuzz(self) -> FuzzView | None:
        raise NotImplementedError

    def on_refitted(self, message: Refitted) -> None:
        if message.pane.id == "detail":
            self._draw_detail()

    @property
    def cases(self) -> LogPane:
        return self.query_one("#cases", LogPane)

    @property
    def failure(self) -> Failure | None:
        fuzz = self.fuzz
        return fuzz.failures.get(self.chosen_key) if fuzz is not None else None

    @property
    def _reading(self) -> bool:
        """Whether the text about a failure, or its script, has the focus."""
        return self.focused is not None and self.focused.id in ("detail", "script")

    def _draw_detail(self) -> None:
        fuzz = self.fuzz
        if not self.is_mounted or fuzz is None:
            return
        pane, failure, ascii = self.query_one("#detail", LogPane), self.failure, self.workbench.ascii
        # Out of sight it has no width yet: it will have the screen's.
        width = max(20, (pane.inner_width if pane.size.width else self.size.width - 2) - 1)
        if failure is not None:
            lines = fuzzes.failure_lines(
                failure, width, ascii, self._replay_words(failure.id), drawn=failure.id in fuzz.drawn
            )
            title = f"Failure of {failure.rung}"
        else:
            lines = fuzzes.summary_lines(fuzz, ascii, width)
            title = "What is said"
        about = (fuzz.id, failure.id if failure is not None else "")
        pane.tell((self.app.theme, width, *lines), lambda: lines, about=about)
        entitle(pane, title)
        if self.has_class("-script"):
            self._show_script()

    def _replay_words(self, failure_id: str) -> str:
        """What became of doing a failure again; "" where nobody asked."""
        if failure_id in self._replaying:
            return "waiting for the device"
        found = self.workbench.model.replays.get(failure_id)
        return fuzzes.replay_text(found) if found is not None else ""

    def _tell_replays(self) -> None:
        model = self.workbench.model
        for replay_id, failure_id in list(self._replay_ids.items()):
            found, view = model.replays.get(failure_id), model.fuzzes.get(replay_id)
            if found is not None and found.fuzz_id == replay_id:
                text = fuzzes.replay_text(found)
            elif view is not None and view.state.final:
                text = f"it did not come to its end: {view.reason or view.state.value}"
            else:
                continue
            del self._replay_ids[replay_id]
            self._replaying.discard(failure_id)
            self.notify(text, title="Replay", timeout=10)

    def row_changed(self) -> None:
        self._draw_detail()

    def action_failure(self) -> None:
        if self._reading:
            self._close_reading()
            return
        if self.fuzz is None:
            self.notify("There is no fuzz yet: r starts one", severity="warning")
            return
        self.add_class("-reading")
        self.query_one("#detail").focus()
        self.call_after_refresh(self._draw_detail)

    def _close_reading(self) -> None:
        self.remove_class("-reading", "-script")
        (self.table if self.has_class("-failing") else self.cases).focus()

    async def action_back(self) -> None:
        """Leave the zoom, then the script, then the failure, then the screen."""
        if self.maximized is not None:
            await super().action_back()
        elif self.has_class("-script"):
            self.action_script()
        elif self._reading:
            self._close_reading()
        else:
            await super().action_back()

    def action_step_failure(self, by: int) -> None:
        self.table.action_cursor(by)

    def action_script(self) -> None:
        if self.has_class("-script"):
            self.remove_class("-script")
            self.query_one("#detail" if self.has_class("-reading") else "#failures").focus()
            return
        failure = self.failure
        if failure is None or not failure.script:
            self.notify("No failure with a script is highlighted", severity="warning")
            return
        self.add_class("-script")
        self._show_script()
        self.query_one("#script", SourceView).focus()

    def _show_script(self) -> None:
        view, failure = self.query_one("#script", SourceView), self.failure
        if failure is not None and view.source != failure.script.expandtabs(8):
            view.show(failure.script, "failure.py")
        view.border_title = Content(
            f"Script of {failure.rung}, {case_text(failure.case)}" if failure is not None else "Script"
        )

    def copy_text(self) -> str:
        fuzz, failure = self.fuzz, self.failure
        if failure is not None and failure.script:
            return failure.script
        if fuzz is None:
            return ""
        ascii = True
        head = [
            f"{self._target_id} {fuzzes.title_text(fuzz, ascii)}",
            fuzzes.state_text(fuzz, self.workbench.model.now_ns(), ascii),
            "",
        ]
        return "\n".join([*head, *(line for line, _ in fuzzes.summary_lines(fuzz, ascii, 120))])

    def action_replay(self) -> None:
        failure = self.failure
        if failure is None:
            self.notify("Highlight a failure first", severity="warning")
        elif failure.id in self._replaying:
            self.notify("It is being done again already", timeout=3)
        else:
            begin(self, partial(self._replay, failure.id), group="replay")

    async def _replay(self, failure_id: str) -> None:
        self._replaying.add(failure_id)
        self._draw_detail()
        reply = await self.workbench.ask_engine(
            "The failure was not replayed", requests.ReplayFailure, failure=failure_id
        )
        if reply is None or not reply.run_ids:
            self._replaying.discard(failure_id)
        else:
            self._replay_ids[reply.run_ids[0]] = failure_id
            self._tell_replays()  # a short one may have ended before the reply was read
        self._draw_detail()
