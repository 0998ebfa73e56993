"""What a person set: theme, graph style, mouse, editor. A TOML file, typed; a bad value never stops the app.

The file is `$AISP_CONFIG` (a file, or a folder with settings.toml), else settings.toml in the platform's
configuration folder. Every key is optional:

    theme  = "aisp-dark"   # see `T` in the app: aisp-dark, aisp-light, aisp-safe, or any of Textual's
    graph  = "auto"        # auto, braille, block, ascii
    mouse  = true
    editor = ""            # "" for $VISUAL, then $EDITOR, then vi
    notify = "off"         # off, bell, osc9, osc777: a signal when what took over 10 s has ended

    [keys]                 # other keys for actions, by the names in docs/keys.md
    run_quick = "f9"       # several with commas between
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec

from aisp.store.given import regular_bytes, write_whole

MOST_BYTES = 1 << 20
Graph = Literal["auto", "braille", "block", "ascii"]
Notify = Literal["off", "bell", "osc9", "osc777"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one start of the app.

    Attributes:
        theme: a registered theme's name.
        graph: which glyphs plots are drawn with; "auto" asks the locale and the terminal.
        mouse: whether the terminal's mouse is used at all.
        editor: a command line; the file's path is put behind it.
        notify: how the terminal tells that a run or fuzz has ended; see tui.endsignal.
        keys: the keys of actions by the names of their bindings, see `tui.keymap.overrides`.
    """

    theme: Annotated[str, msgspec.Meta(min_length=1)] = "aisp-dark"
    graph: Graph = "auto"
    mouse: bool = True
    editor: str = ""
    notify: Notify = "off"
    keys: dict[str, str] = {}


_FIXES = {
    "theme": 'write a theme\'s name, e.g. theme = "aisp-light"',
    "graph": 'write one of graph = "auto", "braille", "block" or "ascii"',
    "mouse": "write mouse = true or mouse = false",
    "editor": 'write a command, e.g. editor = "vim"',
    "notify": 'write one of notify = "off", "bell", "osc9" or "osc777"',
    "keys": 'write a table of names and keys: a line [keys], below it lines like run_quick = "f9"',
}


def settings_file() -> Path:
    """Where the settings stand, whether or not the file exists."""
    given = os.environ.get("AISP_CONFIG")
    if given:
        path = Path(given).expanduser()
        return path / "settings.toml" if path.is_dir() or path.suffix == "" else path
    import platformdirs  # 10 ms that a person with AISP_CONFIG need not pay

    return platformdirs.user_config_path("aisp") / "settings.toml"


def load_settings(path: Path | None = None) -> tuple[Settings, list[str]]:
    """Read the settings, and say in sentences what was wrong with them; wrong values become the defaults.

    Never raises: a file that cannot be read or parsed gives the defaults and one sentence.
    """
    path = path or settings_file()
    try:
        text = _text(path)
    except FileNotFoundError:
        return Settings(), []
    except (OSError, UnicodeDecodeError) as error:
        return Settings(), [f"{path} cannot be read ({error}); the default settings are used"]
    import tomllib

    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        return Settings(), [f"{path} is not TOML ({error}); correct that line, the default settings are used"]
    return _check(table, path)


def _text(path: Path) -> str:
    return regular_bytes(path, MOST_BYTES, follow=True).decode("utf-8")


def _check(table: dict[str, Any], path: Path) -> tuple[Settings, list[str]]:
    good: dict[str, Any] = {}
    problems: list[str] = []
    known = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    for key, value in table.items():
        if key not in known:
            problems.append(f"{path}: {key} is not a setting; there are {', '.join(known)}")
            continue
        try:
            good[key] = msgspec.convert(value, known[key])
        except msgspec.ValidationError:
            default = getattr(Settings(), key)
            problems.append(f"{path}: {key} = {value!r} is not usable; {_FIXES[key]}; {default!r} is used")
    return Settings(**good), problems


def save_setting(key: str, value: str | bool, path: Path | None = None) -> Path:
    """Write one setting, leaving the file's other lines and comments as they are; returns the file.

    Raises:
        KeyError: there is no such setting.
        OSError: the file cannot be written.
    """
    if key not in _FIXES:
        raise KeyError(f"{key} is not a setting; there are {', '.join(_FIXES)}")
    path = path or settings_file()
    written = str(value).lower() if isinstance(value, bool) else '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    try:
        text = _text(path)
    except (FileNotFoundError, UnicodeDecodeError):
        text = ""
    line = f"{key} = {written}"
    pattern = re.compile(rf"^{key}[ \t]*=.*$", re.MULTILINE)
    if pattern.search(text):
        text = pattern.sub(lambda _: line, text, count=1)
    else:
        # Before the first table: behind it the key would belong to that table.
        table = re.search(r"^\[", text, re.MULTILINE)
        at = table.start() if table else len(text)
        before = text[:at]
        text = before + ("" if before.endswith("\n") or not before else "\n") + line + "\n" + text[at:]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text.encode(), 0o600)
    return path


class _Editor(NamedTuple):
    """How an editor is told a line, and what it needs to stay in front until the file is closed.

    Attributes:
        place: words for the file at a line.
        wait: flags of which one makes it block; the first is added where none is given. () where it blocks by itself.
    """

    place: tuple[str, ...]
    wait: tuple[str, ...] = ()


_PLUS = _Editor(("+{line}", "{file}"))
_GOTO = _Editor(("--goto", "{file}:{line}"), ("--wait", "-w"))
_COLON = ("{file}:{line}",)
_EDITORS: dict[str, _Editor] = {
    **dict.fromkeys(("vi", "vim", "nvim", "nano", "emacs", "emacsclient", "micro", "kak", "joe", "mcedit"), _PLUS),
    **dict.fromkeys(("code", "code-insiders", "codium", "cursor", "windsurf"), _GOTO),
    "gvim": _Editor(_PLUS.place, ("--nofork", "-f")),
    "gedit": _Editor(_PLUS.place, ("--wait", "-w")),
    "hx": _Editor(_COLON),
    "helix": _Editor(_COLON),
    "subl": _Editor(_COLON, ("--wait", "-w")),
    "zed": _Editor(_COLON, ("--wait", "-w")),
    "kate": _Editor(("--line", "{line}", "{file}"), ("--block", "-b")),
}


def editor_command(settings: Settings, file: Path, line: int | None = None) -> list[str]:
    """What opens a file, as words. The editor is the setting, else $VISUAL, else $EDITOR, else vi.

    An editor that is not known is given the file alone, and is waited for as long as its process lives.

    Args:
        line: where to begin, counted from 1.

    Raises ValueError where the command's quotes do not match.
    """
    import shlex

    given = (settings.editor, os.environ.get("VISUAL", ""), os.environ.get("EDITOR", ""), "vi")
    words = shlex.split(next(command for command in given if command.strip()))
    editor = _EDITORS.get(Path(words[0]).name, _Editor(()))
    if editor.wait and not set(editor.wait) & set(words):
        words.append(editor.wait[0])
    if line is None or not editor.place:
        return [*words, str(file)]
    return [*words, *(word.format(file=file, line=line) for word in editor.place)]
