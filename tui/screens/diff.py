"""Two sources of a target side by side: any rungs or files, as they are now or as they ran in any earlier run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from aisp.store.text import clean, clean_line
from aisp.tui import plain
from aisp.tui.aside import aside, begin
from aisp.tui.keymap import Key, bind
from aisp.tui.screens import Source
from aisp.tui.screens.base import WorkScreen
from aisp.tui.screens.lesson import MAX_FILE_BYTES, file_of, read_source
from aisp.tui.screens.source import language_of
from aisp.tui.widgets.diffview import DiffView

if TYPE_CHECKING:
    from aisp.kernels.catalog.model import Target

MAX_EARLIER = 300  # earlier states offered in the list of sources


class DiffScreen(WorkScreen):
    """See the module.

    Args:
        target_id: whose sources.
        left, right: what to compare; by default the baseline with the optimized rung, or where there is a cheat its
            honest twin with it, as they are now.
    """

    BINDINGS: ClassVar[list[BindingType]] = bind(
        Key("pick(0, -1)", "left_square_bracket", "left", "Put the source before into the left half.", "[ ]"),
        Key("pick(0, 1)", "right_square_bracket", "", "Put the next source into the left half."),
        Key("pick(1, -1)", "left_curly_bracket", "right", "Put the source before into the right half.", "{ }"),
        Key("pick(1, 1)", "right_curly_bracket", "", "Put the next source into the right half."),
        Key("choose(0)", "o", "pick left", "Pick the left source from a list: rungs now, and every earlier run."),
        Key("choose(1)", "p", "", "Pick the right source from a list."),
        Key("swap", "s", "", "Swap left and right."),
        *("run_quick", "run_full", "watch", "history", "edit"),
    )
    DEFAULT_CSS = "DiffScreen #diff { height: 1fr; }"

    def __init__(self, target_id: str, left: Source | None = None, right: Source | None = None) -> None:
        super().__init__(target_id)
        self._sides: list[Source | None] = [left, right]
        self._earlier: list[tuple[str, str, str]] = []  # snapshot, wall, run id; newest first
        self._looked = False  # whether the store was asked for earlier sources
        self._stored: tuple[str, ...] = ()  # the files of a snapshot that is compared
        self._compared: tuple[Source, Source] | None = None

    @property
    def rung_name(self) -> str:
        """The right side's rung: what one edits after having seen the difference."""
        right = self._sides[1]
        return right.name if right is not None else ""

    @property
    def header_title(self) -> str:
        return f"{self._target_id}  {self._label(0)} → {self._label(1)}"

    def compose_body(self) -> ComposeResult:
        yield DiffView(id="diff", name="Diff", classes="pane")

    def on_mount(self) -> None:
        self._begin()
        begin(self, self._load_earlier, group="earlier")

    @property
    def view(self) -> DiffView:
        return self.query_one(DiffView)

    def refresh_from(self, names: set[str]) -> None:
        super().refresh_from(names)
        if self.is_mounted and "catalog" in names:
            self._begin()

    def copy_text(self) -> str:
        """The two names; the pane copies its own hunks."""
        return f"{self._label(0)}\n{self._label(1)}"

    @property
    def _names(self) -> list[str]:
        """Rungs in their order, then the other files: of the target, or of what was stored of one that is gone."""
        from aisp.kernels.catalog.loader import rungs_among  # the loader was read in a thread, with the lessons

        target = self.workbench.target(self._target_id)
        files = target.files if target is not None else self._stored
        rungs = [rung.name for rung in target.rungs] if target is not None else list(rungs_among(files))
        return rungs + [name for name in files if name.removesuffix(".py") not in rungs]

    def _begin(self) -> None:
        """Compare; of a target that is gone what its newest run ran, unless an earlier one is meant."""
        snapshot = ""
        if self.workbench.target(self._target_id) is None:
            if self.workbench.catalog is None or not self._looked:
                return  # not read yet
            snapshot = self._earlier[0][0] if self._earlier else ""
        for side, default in enumerate(self.workbench.pair_of(self._target_id)):
            if self._sides[side] is None:
                self._sides[side] = Source(default, snapshot)
        self._compare()

    def _label(self, side: int) -> str:
        source = self._sides[side]
        if source is None or not source.snapshot:
            return plain.DASH if source is None else f"{source.name} (now)"
        newest = next((wall for snapshot, wall, _ in self._earlier if snapshot == source.snapshot), "")
        wall = source.wall or newest
        return f"{source.name} ({plain.local_time(wall) + ', ' if wall else ''}{source.snapshot[:8]})"

    def _compare(self) -> None:
        left, right = self._sides
        if left is None or right is None:
            return
        self._compared = (left, right)
        begin(self, partial(self._load, left, right), group="load", exclusive=True)
        self.renew_header()

    async def _load(self, left: Source, right: Source) -> None:
        target = self.workbench.target(self._target_id)
        texts = [await self._text(target, source) for source in (left, right)]
        if self._compared != (left, right):
            return
        name = file_of(target, right.name).name if target is not None else right.name
        self.view.show(
            texts[0],
            texts[1],
            left_title=self._label(0),
            right_title=self._label(1),
            language=language_of(name),
        )

    async def _text(self, target: Target | None, source: Source) -> str:
        if not source.snapshot:
            if target is None:
                return self.workbench.absent(self._target_id)
            return await aside(read_source, file_of(target, source.name))

        files, why = await self.workbench.read(lambda history: history.snapshot(source.snapshot))
        if files is None:
            return f"snapshot {source.snapshot[:8]} cannot be read: {why}" if why else "there is no store yet"
        self._stored = tuple(sorted(files))
        name = file_of(target, source.name).name if target is not None else source.name
        for candidate in (source.name, name, f"{source.name}.py"):
            if candidate in files:
                return clean(files[candidate], limit=MAX_FILE_BYTES)
        return clean_line(f"{source.name} was not there then; there were {', '.join(sorted(files))}", limit=2000)

    async def _load_earlier(self) -> None:
        found, why = await self.workbench.read(lambda history: history.snapshots_of(self._target_id))
        if why:
            self.notify(f"Earlier sources cannot be read: {why}", severity="warning")
        seen: set[str] = set()
        for snapshot, wall, run_id in found or []:
            if snapshot not in seen and len(seen) < MAX_EARLIER:
                seen.add(snapshot)
                self._earlier.append((snapshot, wall, run_id))
        self._looked = True
        if self._compared is None:
            self._begin()
        elif any(source.snapshot for source in self._compared):
            self._compare()  # the titles can now say when

    def action_pick(self, side: int, by: int) -> None:
        """Put the next or the previous source into a half, at the same time as the one that is there."""
        current, names = self._sides[side], self._names
        if current is None or not names:
            return
        at = names.index(current.name) if current.name in names else 0
        self._sides[side] = replace(current, name=names[(at + by) % len(names)])
        self._compare()

    def action_choose(self, side: int) -> None:
        current = self._sides[side]
        if current is None:
            return
        there = self.workbench.target(self._target_id) is not None
        rows = [(f"now {name}", f"{name}  now") for name in self._names] if there else []
        rows += [
            (f"{snapshot} {current.name}", f"{current.name}  {plain.local_time(wall)}  {snapshot[:8]}  run {run_id}")
            for snapshot, wall, run_id in self._earlier
        ]
        here = f"{current.snapshot or 'now'} {current.name}"
        from aisp.tui.screens.picker import PickerScreen  # only where a list is asked for

        def take(key: str | None) -> None:
            if key is not None:
                snapshot, _, name = key.partition(" ")
                self._sides[side] = Source(name, "" if snapshot == "now" else snapshot)
                self._compare()

        which = "left" if side == 0 else "right"
        self.app.push_screen(PickerScreen(f"Source for the {which} half", rows, here), take)

    def action_swap(self) -> None:
        self._sides.reverse()
        self._compare()
