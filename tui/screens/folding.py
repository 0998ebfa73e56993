"""A list in groups that fold, with the keys for it."""

from __future__ import annotations

from collections.abc import Sequence

from aisp.tui.keymap import Key
from aisp.tui.screens.base import WorkScreen


def folding_keys(group: str) -> tuple[Key, ...]:
    """The keys, for groups of this name."""
    return (
        Key("fold", "left,h", "", f"Fold the {group}."),
        Key("unfold", "right", "", f"Unfold the {group}."),
        Key("toggle_fold", "space", "", f"Fold or unfold the {group}."),
        Key("fold_all", "minus", "", f"Fold every {group}, or unfold them all."),
    )


class FoldingScreen(WorkScreen):
    """See the module. A subclass leaves out the rows of `folded` groups when it draws."""

    def __init__(self) -> None:
        super().__init__()
        self.folded: set[str] = set()

    def group(self) -> str:
        """The group that the highlighted row belongs to, "" where there is none."""
        raise NotImplementedError

    def groups(self) -> Sequence[str]:
        """Those that "fold all" is about."""
        raise NotImplementedError

    def head(self, group: str) -> str:
        """Key of the row that stands for a group."""
        raise NotImplementedError

    def action_fold(self) -> None:
        if group := self.group():
            self.folded.add(group)
            self.draw()
            self.table.move_to(self.head(group))

    def action_unfold(self) -> None:
        self.folded.discard(self.group())
        self.draw()

    def action_toggle_fold(self) -> None:
        if self.group() in self.folded:
            self.action_unfold()
        else:
            self.action_fold()

    def action_fold_all(self) -> None:
        every, group = set(self.groups()), self.group()
        self.folded = set() if every <= self.folded else every
        self.draw()
        if group in self.folded:
            self.table.move_to(self.head(group))
