"""What a person set: theme, graph style, mouse, editor. A TOML file, typed; a bad value never stops the app.

The file is `$AISP_CONFIG` (a file, or a folder with settings.toml), else settings.toml in the platform's
configuration folder. Every key is optional:

    theme  = "aisp-dark"   # see `T` in the app: aisp-dark, aisp-light, aisp-safe, or any of Textual's
    graph  = "auto"        # auto, braille, block, ascii
    mouse  = true
    editor = ""            # "" for $VISUAL, then $EDITOR, then vi
    notify = "off"         # off, bell, osc9, osc777: a signal when what took over 10 s has ended
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

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
    """

    theme: Annotated[str, msgspec.Meta(min_length=1)] = "aisp-dark"
    graph: Graph = "auto"
    mouse: bool = True
    editor: str = ""
    notify: Notify = "off"


_FIXES = {
    "theme": 'write a theme\'s name, e.g. theme = "aisp-light"',
    "graph": 'write one of graph = "auto", "braille", "block" or "ascii"',
    "mouse": "write mouse = true or mouse = false",
    "editor": 'write a command, e.g. editor = "vim"',
    "notify": 'write one of notify = "off", "bell", "osc9" or "osc777"',
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
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Settings(), []
    except (OSError, UnicodeDecodeError) as error:
        return Settings(), [f"{path} cannot be read ({error}); the default settings are used"]
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return Settings(), [f"{path} is not TOML ({error}); correct that line, the default settings are used"]
    return _check(table, path)


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
        text = path.read_text(encoding="utf-8")
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
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".settings-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as sink:
            sink.write(text)
        Path(temporary).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
    return path


# How an editor is told the line to begin at; any other opens the file alone.
PLUS_LINE = frozenset({"vi", "vim", "nvim", "nano", "emacs"})
GOTO_LINE = frozenset({"code", "codium", "cursor"})


def editor_command(settings: Settings, file: Path, line: int | None = None) -> list[str]:
    """What opens a file, as words. The editor is the setting, else $VISUAL, else $EDITOR, else vi.

    Args:
        line: where to begin, counted from 1.

    Raises ValueError where the command's quotes do not match.
    """
    import shlex

    chosen = settings.editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    words = shlex.split(chosen)
    name = Path(words[0]).name if words and line is not None else ""
    if name in PLUS_LINE:
        return [*words, f"+{line}", str(file)]
    if name in GOTO_LINE:
        return [*words, "--goto", f"{file}:{line}"]
    return [*words, str(file)]
