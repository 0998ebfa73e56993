"""The person's own tools in the app: settings, theme and signs, editor, clipboard, pictures, messages and questions."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.app import App

from aisp.engine import paths
from aisp.store.text import clean_line
from aisp.tui import plain, themes
from aisp.tui.aside import aside, begin
from aisp.tui.settings import Settings, editor_command, load_settings, save_setting, settings_file
from aisp.tui.widgets.glyphs import GraphStyle, detect
from aisp.tui.widgets.sevenbits import SEVEN_BITS

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.filter import LineFilter
    from textual.notifications import SeverityLevel

    from aisp.tui.screens.confirm import Rewrite

TOLD_CHARACTERS = 600


class Desk(App[None]):
    """The app as far as these go.

    Attributes:
        settings: as read, with the command line's options on top.
        graph_style: which glyphs plots and signs are drawn with.
    """

    def __init__(self, settings: Settings | None, driver_class: type[Driver] | None) -> None:
        super().__init__(driver_class=driver_class)
        self._problems: list[str] = []
        if settings is None:
            settings, self._problems = load_settings()
        self.settings = settings
        themes.register(self)
        self._choose_theme()
        self.graph_style = self._graph_style()
        plain.ascii_only(self.ascii)

    def _forward(self, names: set[str]) -> None:
        screens = self.screen_stack
        for screen in reversed(screens):
            refresh = getattr(screen, "refresh_from", None)
            if refresh is not None:
                refresh(names)
            if not screen.is_modal:  # a panel lies over a screen that is still in sight
                return

    async def confirmed(self, question: str, detail: str = "", rewrites: Sequence[Rewrite] = ()) -> bool:
        """Ask the person; see `QuestionScreen`. Called by a worker."""
        from aisp.tui.screens.confirm import ConfirmScreen  # a question is rare

        yes: bool | None = await self.push_screen_wait(ConfirmScreen(question, detail, rewrites))
        return bool(yes)

    def edit_settings(self) -> None:
        path = settings_file()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError as error:
            self.notify(f"{path} cannot be made: {error.strerror}", severity="error")
            return
        self.edit_file(path)

    def edit_file(self, path: Path, line: int | None = None) -> None:
        """Open a file in the person's editor, at a line where the editor can be told one."""
        if path.parent.is_file():  # a part of a target that is one file, with that file's line numbers
            path = path.parent
        import subprocess

        from textual.app import SuspendNotSupported

        try:
            command = editor_command(self.settings, path, line)
        except ValueError as error:
            self.notify(
                f"The editor's command is not usable ({error}); correct `editor` in the settings", severity="error"
            )
            return
        try:
            with self.suspend():
                # The editor reads the terminal itself; the app's reader thread is stopped meanwhile.
                status = subprocess.run(command, check=False).returncode
        except SuspendNotSupported:
            self.notify(f"This terminal cannot be handed to an editor; open {path}", severity="warning", timeout=15)
            return
        except OSError as error:
            self.notify(
                f"{command[0]} could not be started ({error.strerror}); set EDITOR or `editor`",
                severity="error",
                timeout=12,
            )
            return
        if status:
            self.notify(f"{command[0]} ended with status {status}", severity="warning")

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,
    ) -> None:
        """Tell something in a corner, on one line and as text: a path, an error or a link in it is never obeyed."""
        told = clean_line(message, limit=TOLD_CHARACTERS)
        super().notify(told, title=title, severity=severity, timeout=timeout, markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy to the terminal's clipboard, and to a file: tmux and terminals may drop such copies. Say what is so."""
        super().copy_to_clipboard(text)
        begin(self, partial(self._copied, text), group="clipboard")

    async def _copied(self, text: str) -> None:
        from aisp.tui.facts import Health, tmux_check, tmux_clipboard  # once somebody copies

        path = paths.state_dir() / "clipboard.txt"
        size = f"{len(text.splitlines())} lines" if "\n" in text.strip("\n") else "1 line"
        failed = ""
        try:
            path.write_text(text, encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            failed = f"{path}: {error.strerror}"
        tmux = tmux_check(os.environ, await aside(tmux_clipboard, os.environ))
        dropped = tmux.verdict is Health.WARNING
        sent = "" if tmux.verdict is Health.OK else f"; of the clipboard, {tmux.value}"
        if failed:
            where = "nowhere" if dropped else "to the terminal only"
            self.notify(f"Copied {size} {where}; {failed}{sent}", severity="error" if dropped else "warning")
        elif sent:
            self.notify(f"Copied {size} to {path}{sent}", severity="warning" if dropped else "information")
        else:
            self.notify(f"Copied {size} to the terminal's clipboard and to {path}")

    def on_diff_view_copied(self, message: Any) -> None:
        self.copy_to_clipboard(message.text)

    def action_next_theme(self) -> None:
        names = list(themes.THEME_NAMES)
        at = names.index(self.theme) if self.theme in names else -1
        self.set_theme(names[(at + 1) % len(names)])

    def set_theme(self, name: str) -> None:
        self.theme = name
        self._remember("theme", name)
        self.notify(f"Theme {name}", timeout=2)

    def set_graph(self, style: str) -> None:
        """Change how plots and signs are drawn: "auto", "braille", "block" or "ascii"; remembered."""
        import msgspec

        self.settings = msgspec.structs.replace(self.settings, graph=style)
        self.graph_style = self._graph_style()
        plain.ascii_only(self.ascii)
        for screen in self.screen_stack:
            for widget in screen.walk_children():
                if hasattr(widget, "redraw"):  # a picture is drawn anew
                    widget.redraw()
                widget.refresh()  # borders and scroll bars too
        self._forward(set())
        self._remember("graph", style)
        self.notify(f"Graphs are drawn with {self.graph_style.value}", timeout=2)

    def _remember(self, key: str, value: str) -> None:
        try:
            save_setting(key, value)
        except OSError as error:
            self.notify(f"Not remembered: {error}", severity="warning")

    def _choose_theme(self) -> None:
        wanted = self.settings.theme
        if wanted in self.available_themes:
            self.theme = wanted
            return
        self._problems.append(f"there is no theme {wanted!r}; there are {', '.join(sorted(self.available_themes))}")
        if themes.THEME_NAMES[0] in self.available_themes:
            self.theme = themes.THEME_NAMES[0]

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, and where only 7 bits may be used, the one that draws borders and scroll bars with them."""
        return [*([SEVEN_BITS] if self.ascii else []), *super().get_line_filters()]

    def _graph_style(self) -> GraphStyle:
        if self.settings.graph == "auto":
            return detect(os.environ, getattr(sys.__stdout__, "encoding", "") or "")
        return GraphStyle(self.settings.graph)

    @property
    def ascii(self) -> bool:
        return self.graph_style is GraphStyle.ASCII

    def action_screenshot(self, filename: str | None = None, path: str | None = None) -> None:
        self.save_picture()

    def save_picture(self, file: Path | None = None) -> Path | None:
        """Write the screen as an SVG; returns where, None after telling that it could not be written."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        file = file or paths.make_private(paths.state_dir() / "screenshots") / f"aisp-{stamp}.svg"
        try:
            file.write_text(self.export_screenshot(), encoding="utf-8")
        except OSError as error:
            self.notify(f"{file} could not be written: {error.strerror}", severity="error")
            return None
        self.notify(f"Saved {file}")
        return file
