"""Importing a lesson's module from its snapshot, and telling what went wrong in the words of its author's files."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kernels.catalog.parsing import REFUSALS, refusal
from kernels.catalog.sources import MAX_FILE_BYTES

MAX_MESSAGE_CHARACTERS = 4000
MAX_FRAMES = 40
PEER = "peer_"


class NotHereError(Exception):
    """The module says that it cannot run on this machine."""


class LessonError(Exception):
    """The lesson breaks the contract of a variant; the message says which part and how to mend it."""


def file_of(folder: Path, name: str) -> Path:
    """Where the module's source lies. Raises LessonError where it could not be read when the run was planned."""
    path = folder / f"{name}.py"
    if not path.is_file():
        most = f"{MAX_FILE_BYTES >> 20} MiB"
        told = f"a rung is a file of at most {most} with run(...)"
        raise LessonError(f"{name}.py could not be read; {told}")
    return path


def import_module(folder: Path, name: str) -> ModuleType:
    """Import `folder`/`name`.py as a top-level module with `folder` first on the path.

    Raises:
        LessonError: there is no such file, or Python cannot compile it or what it imports of the folder.
        NotHereError: it is a peer, and the package that it shows is not installed.
        Exception: whatever the module raises.
    """
    path = file_of(folder, name)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LessonError(f"{name}.py cannot be imported as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        if name.startswith(PEER) and error.name and not (folder / f"{error.name}.py").exists():
            raise NotHereError(f"{error.name} is not installed here; pip install 'aisp[peers]' may bring it") from error
        raise
    except REFUSALS as error:
        located = isinstance(error, SyntaxError) and error.lineno  # it says where, and shows the line
        if not located and (told := _refusal(folder, path, error)):
            raise LessonError(told) from None
        raise
    return module


def _refusal(folder: Path, path: Path, error: BaseException) -> str:
    """Which file of the lesson Python could not compile, and why; "" where the error is another one.

    A lesson's own error ends at the line that raised it; this one ends where a module was to be made.
    """
    frames = traceback.extract_tb(error.__traceback__)
    line = (frames[-1].line or "") if frames else ""
    if frames and frames[-1].filename.startswith("<frozen importlib"):
        files = [path]
    elif line.startswith(("import ", "from ")):
        words = re.findall(r"\w+", line)
        files = [file for file in sorted(folder.rglob("*.py")) if file.stem in words]
    else:
        return ""
    return next(filter(None, (refusal(file.read_bytes(), str(file.relative_to(folder))) for file in files)), "")


def callable_of(module: ModuleType, name: str) -> object:
    """The module's function of that name. Raises LessonError where there is none."""
    found = getattr(module, name, None)
    if not callable(found):
        raise LessonError(f"{module.__name__}.py has no function {name}(...)")
    return found


def summary(error: BaseException) -> str:
    """Exception type and message on one line."""
    if isinstance(error, SyntaxError):
        name = Path(error.filename).name if error.filename else "?"
        return f"{type(error).__name__}: {error.msg} ({name}, line {error.lineno})"
    text = " ".join(str(error).split())
    kind = type(error).__name__
    return f"{kind}: {text[:300]}" if text else kind


def user_traceback(error: BaseException, folder: Path) -> str:
    """The traceback cut to the frames in the lesson's own files, paths relative to its folder.

    Where no frame is the lesson's, the innermost three stay, so that the place is never lost; of more than
    MAX_FRAMES, the first and the last. Causes follow.
    """
    prefix = str(folder) + os.sep
    parts: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.extract_tb(current.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(prefix)]
        located = isinstance(current, SyntaxError) and bool(current.text)  # its own place follows the frames
        shown = own or ([] if located else list(frames)[-3:])
        lines: list[str] = []
        for number, frame in enumerate(shown):
            if len(shown) > MAX_FRAMES and MAX_FRAMES // 2 <= number < len(shown) - MAX_FRAMES // 2:
                if number == MAX_FRAMES // 2:
                    lines.append(f"  ... {len(shown) - MAX_FRAMES} more frames ...")
                continue
            lines.append(f"  {frame.filename.removeprefix(prefix)}:{frame.lineno} in {frame.name}")
            if frame.line:
                lines.append(f"      {frame.line}")
        if isinstance(current, SyntaxError) and current.text:
            lines.append(f"  {current.filename or '?'}:{current.lineno}")
            lines.append(f"      {current.text.rstrip()}")
        message = str(current)
        if len(message) > MAX_MESSAGE_CHARACTERS:
            message = message[:MAX_MESSAGE_CHARACTERS] + " ..."
        lines.append(f"{type(current).__name__}: {message}" if message else type(current).__name__)
        parts.append("\n".join(lines).replace(prefix, ""))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\ncaused by\n".join(parts)
