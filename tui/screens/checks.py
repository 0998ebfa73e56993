"""Every check of the registry by category with what it did in the last run, and every issue with what answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.binding import BindingType

from aisp.store.results import trust
from aisp.tui import findings, plain
from aisp.tui.aside import begin
from aisp.tui.keymap import Key, bind
from aisp.tui.model import RunView, stored_run
from aisp.tui.screens.checklist import EVIDENCE, FOLDING, ONLY, WALKING, ChecklistScreen
from aisp.tui.widgets.table import Cell, Column

if TYPE_CHECKING:
    from aisp.engine.trust import CheckView, IssueView
    from aisp.store import History

WIDE_COLUMNS = 190  # from here on there is room for what happens, or what a check is called


class ChecksScreen(ChecklistScreen):
    """See the module.

    Args:
        run_id: whose findings stand beside the checks; "" for the newest run that has any.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        EVIDENCE,
        ONLY,
        Key("issues", "i", "issues", "List the issues with what answers them, or the checks again."),
        *WALKING,
        "trust",
        *FOLDING,
    )

    def __init__(self, run_id: str = "") -> None:
        super().__init__()
        self._run_id = run_id
        self._run: RunView | None = None
        self._why = "reading the store"
        self._issues = False  # whether issues are listed rather than checks
        self._arranged = False

    @property
    def header_title(self) -> str:
        return "Issues" if self._issues else "Checks"

    @property
    def target_id(self) -> str:
        return self._run.record.target if self._run is not None else ""

    def on_mount(self) -> None:
        begin(self, self._load, group="stored", exclusive=True)

    async def _load(self) -> None:
        live = self.workbench.model.runs.get(self._run_id)
        if live is None and not self._run_id:
            told = [run for run in self.workbench.model.runs.values() if run.record.findings and run.record.state.final]
            live = told[-1] if told else None
        if live is not None and live.record.findings:
            self._run = live
        else:
            run_id = self._run_id

            def read(history: History) -> RunView | None:
                if run_id:
                    return stored_run(history.run(run_id), {})
                found = trust.newest_checked(history.newest(trust.LOOK_BACK_RUNS))
                return stored_run(found, {}) if found is not None else None

            self._run, why = await self.workbench.read(read)
            self._why = why or "no run with findings is stored yet"
        self.draw()

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if not self.is_mounted:
            return
        ended = [run for run in self.workbench.model.runs.values() if run.record.findings and run.record.state.final]
        if not self._run_id and "runs" in names and ended and (self._run is None or ended[-1].id != self._run.id):
            begin(self, self._load, group="stored", exclusive=True)
        elif not names:
            self.draw()

    def _said(self) -> dict[str, trust.Said]:
        return trust.by_check(self._run.record.findings) if self._run is not None else {}

    def draw(self) -> None:
        if not self.is_mounted:
            return
        book, run, table = self.book, self._run, self.table
        only = findings.FILTERS[self.only]
        if book is None:
            table.empty = self.problem or "reading the registry"
            self.say("title", Text(table.empty))
            self.say("state", Text(""))
            return
        if not self._arranged:
            self._arranged = True
            self.folded = set(self.groups()) if self.size.height < 40 else set()
        listed = sum(issue.listed for issue in book.issues.values())
        self.say(
            "title",
            Text(
                f"{len(book.checks)} checks answer {listed} issues of the field's list "
                f"and {len(book.issues) - listed} beyond it"
            ),
        )
        if run is None:
            self.say("state", Text(f"last run: {self._why}"))
        else:
            counted = findings.counts_text(trust.by_category(run.record.findings)) or "it has no findings"
            dot = "|" if self.workbench.ascii else "·"
            self.say(
                "state", Text(f"last run {run.record.target}: {counted} {dot} {plain.local_time(run.record.wall)}")
            )
        table.border_title = ("Issues" if self._issues else "Checks") + f": {only.words}"
        table.empty = f"{only.words}: there are none; o shows others"
        wide = self.size.width >= WIDE_COLUMNS
        if self._issues:
            table.columns = [
                Column("id", "issue", 34),
                Column("how", "how", 11),
                Column("last", "last run", 13),
                Column("what", "what happens", None, ratio=1),
            ]
            table.show(self._issue_rows(book, only))
        else:
            columns = [
                Column("id", "check", 30),
                Column("last", "last run", 13),
                *([Column("when", "asked", 18), Column("answers", "answers", 7, "right")] if wide else []),
                Column("about", "looks at", None, ratio=1),
            ]
            table.columns = columns
            table.show(self._check_rows(book, only, wide))
        self.row_changed()

    def _last(self, said: trust.Said | None) -> Text:
        if said is None:
            return Text(plain.DASH, "dim")
        return findings.status_text(said.status, self.workbench.ascii)

    def _heading(self, category: str, rest: str) -> tuple[str, list[Cell]]:
        folded = category in self.folded and not self.only
        return f"category {category}", [findings.category_text(category, rest, folded, self.workbench.ascii), "", ""]

    def _check_rows(self, book: findings.Book, only: findings.Only, wide: bool) -> list[tuple[str, list[Cell]]]:
        said = self._said()
        rows: list[tuple[str, list[Cell]]] = []
        for category in self.groups():
            views = [view for view in book.checks.values() if view.category == category]
            shown = [view for view in views if only.wants(said.get(view.id))]
            if not shown:
                continue
            found = [said[view.id] for view in views if view.id in said]
            counted = findings.counts_text([trust.Category(category, tuple(found))]) if found else ""
            asked = f"{len(views)} check{'' if len(views) == 1 else 's'}"
            rows.append(self._heading(category, f"{asked}{': ' + counted if counted else ''}"))
            if category in self.folded and not self.only:
                continue
            for view in shown:
                cells: list[Cell] = [Text(f"  {view.id.partition('.')[2]}"), self._last(said.get(view.id))]
                cells += [view.when, str(len(view.issues))] if wide else []
                rows.append((f"check {view.id}", [*cells, Text(view.about)]))
        return rows

    def _issue_rows(self, book: findings.Book, only: findings.Only) -> list[tuple[str, list[Cell]]]:
        said = self._said()
        rows: list[tuple[str, list[Cell]]] = []
        for category in self.groups():
            views = [view for view in book.issues.values() if view.category == category]
            shown = [view for view in views if only.wants(self._worst(view, said))]
            if not shown:
                continue
            hows: list[str] = [view.how for view in views]
            counted = ", ".join(
                f"{hows.count(how)} {how}" for how in ("prevented", "detected", "unavailable") if how in hows
            )
            asked = f"{len(views)} issue{'' if len(views) == 1 else 's'}"
            rows.append(self._heading(category, f"{asked}: {counted}"))
            if category in self.folded and not self.only:
                continue
            for view in shown:
                name = Text(f"  {view.id.partition('.')[2]}", "" if view.listed else "italic")
                last = self._last(self._worst(view, said))
                rows.append((f"issue {view.id}", [name, view.how, last, Text(view.what)]))
        return rows

    def _worst(self, issue: IssueView, said: dict[str, trust.Said]) -> trust.Said | None:
        return trust.worst(said[check] for check in issue.checks if check in said)

    def about(self, kind: str, name: str) -> tuple[str, Sequence[str]]:
        book, said = self.book, self._said()
        if book is None:
            return name, [self.problem or "reading the registry"]
        if kind == "category":
            return name, self._about_category(book, name, said)
        if kind == "issue" and name in book.issues:
            view = book.issues[name]
            lines = findings.issue_lines(view)
            for check in view.checks:
                if check in said:
                    lines += ["", f"{check} in the last run", *findings.evidence_lines(said[check], self._run)]
            return name, lines
        view_of: CheckView | None = book.checks.get(name)
        lines = [view_of.title, ""] if view_of is not None else []
        if name in said:
            lines += ["in the last run:", *findings.evidence_lines(said[name], self._run)]
        return name, [*lines, *findings.check_lines(name, book)]

    def _about_category(self, book: findings.Book, name: str, said: dict[str, trust.Said]) -> list[str]:
        if self._issues:
            listed = [issue for issue in book.issues.values() if issue.category == name]
            return [f"{issue.id} ({issue.how}): {issue.what}" for issue in listed]
        lines = []
        for view in book.checks.values():
            if view.category == name:
                last = f" ({findings.STATUS_WORDS[said[view.id].status]})" if view.id in said else ""
                lines.append(f"{view.id}{last}: {view.title}")
        return lines

    def groups(self) -> Sequence[str]:
        if self.book is None:
            return []
        names = [view.category for view in self.book.checks.values()]
        return list(dict.fromkeys([*names, *(view.category for view in self.book.issues.values())]))

    def action_issues(self) -> None:
        category = self.group()
        self._issues = not self._issues
        self.draw()
        self.table.move_to(f"category {category}")
        self.renew_header()

    def opened_about(self, name: str) -> dict[str, Any] | None:
        if name != "trust":
            return super().opened_about(name)
        if self._run is None:
            self.notify("No run with findings is known yet")
            return None
        return {"target_id": self._run.record.target, "run_id": self._run.id}
