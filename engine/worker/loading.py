"""Importing a lesson's module from its snapshot, and reporting its errors in the words of its author's files."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from aisp.kernels.catalog.parsing import REFUSALS, refusal
from aisp.kernels.catalog.sources import MAX_FILE_BYTES

MAX_MESSAGE_CHARACTERS = 4000
MAX_FRAMES = 40
MAX_LINE_CHARACTERS = 400
_LOOK_FOR_A_GPU = {  # the first stands in the place of classes where PyTorch was built without CUDA
    ("torch._utils", "err_fn"), ("torch.utils.cpp_extension", "_join_cuda_home"),
    ("triton.runtime.driver", "_create_driver"),
}  # fmt: skip
MAX_ERRORS = 40  # of a chain of causes, and of all groups in it together
PEER = "peer_"

# What a class and an exception say of themselves can be overridden by the lesson; what Python keeps of them cannot.
_name_of: Any = type.__dict__["__name__"].__get__


def _kept(error: BaseException, name: str) -> Any:
    return BaseException.__dict__[name].__get__(error)


class NotHereError(Exception):
    """The module says that it cannot run on this machine."""


class LessonError(Exception):
    """The lesson breaks the contract of a variant; the message says which part and how to mend it."""


def file_of(folder: Path, name: str) -> Path:
    """Where the module's source lies. Raises LessonError where it could not be read when the run was planned."""
    path = folder / f"{name}.py"
    if not path.is_file():
        most = f"{MAX_FILE_BYTES >> 20} MiB"
        advice = f"a rung is a file of at most {most} with run(...) or prepare(...)"
        raise LessonError(f"{name}.py could not be read; {advice}")
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
        if error.name == "kernels":
            raise LessonError(f"{text_of(error)}; aisp's own is its part: `from aisp.kernels import cuda`") from error
        raise
    except REFUSALS as error:
        located = isinstance(error, SyntaxError) and error.lineno  # it says where, and shows the line
        if not located and (why := _refusal(folder, path, error)):
            raise LessonError(why) from None
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
    function = getattr(module, name, None)
    if not callable(function):
        raise LessonError(f"{module.__name__}.py has no function {name}(...)")
    return function


def entries_of(module: ModuleType) -> tuple[Any, Any]:
    """A rung's run and prepare; None for the one that it does without. What prepare returns is timed instead of run.

    Raises LessonError where there is neither, and where prepare is no function.
    """
    run, prepare = (getattr(module, name, None) for name in ("run", "prepare"))
    if prepare is not None:
        prepare = callable_of(module, "prepare")
    elif not callable(run):
        raise LessonError(f"{module.__name__}.py has neither run(...) nor prepare(...)")
    return run if callable(run) else None, prepare


def kind_of(error: BaseException) -> str:
    """The exception's type, by name."""
    return str(_name_of(type(error)))


def text_of(error: BaseException) -> str:
    """What an exception says, cut in its middle to MAX_MESSAGE_CHARACTERS; why, where it cannot say it."""
    try:
        return _cut(str(error), MAX_MESSAGE_CHARACTERS)
    except BaseException as other:  # __str__ is the lesson's code, and may leave as well as raise
        return f"(what it says could not be read: its __str__ raised {kind_of(other)})"


def _cut(text: str, most: int) -> str:
    """The text's beginning and end: where an error holds the trace of another process, the reason comes last.

    A subclass of str may have methods of its own; a slice by str's is plain text.
    """
    size = str.__len__(text)
    if size <= most:
        return str.__getitem__(text, slice(0, size))
    return f"{str.__getitem__(text, slice(0, most // 2))} ... {str.__getitem__(text, slice(size - most // 2, size))}"


def asks_for_a_gpu(error: BaseException) -> bool:
    """Whether it was raised where PyTorch or Triton looks for a GPU, its driver or its compiler."""
    place = _kept(error, "__traceback__")
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return False
    module, function = str(place.tb_frame.f_globals.get("__name__")), place.tb_frame.f_code.co_name
    return f"{module}.".startswith("torch.cuda.") or (module, function) in _LOOK_FOR_A_GPU


def summary(error: BaseException) -> str:
    """Exception type and message on one line."""
    kind = kind_of(error)
    if isinstance(error, SyntaxError) and isinstance(error.filename, str | None):
        name = Path(error.filename).name if error.filename else "?"
        return f"{kind}: {error.msg} ({name}, line {error.lineno})"
    text = " ".join(text_of(error).split())
    return f"{kind}: {_cut(text, 300)}" if text else kind


def user_traceback(error: BaseException, folder: Path) -> str:
    """The traceback cut to the frames in the lesson's own files, paths relative to its folder.

    Where no frame is the lesson's, the innermost three stay, so that the place is never lost; of more than
    MAX_FRAMES, the first and the last. Causes follow, and what a group holds; MAX_ERRORS of them in all.
    """
    parts: list[str] = []
    seen: set[int] = set()
    waiting: list[tuple[str, BaseException]] = [("", error)]
    while waiting:
        relation, current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if len(parts) == MAX_ERRORS:
            parts.append("\n\n... more errors are left out ...")
            break
        parts.append(relation + _one(current, folder))
        cause = _kept(current, "__cause__")
        if cause is None and not _kept(current, "__suppress_context__"):
            cause = _kept(current, "__context__")
        held = current.exceptions if isinstance(current, BaseExceptionGroup) else ()
        waiting += [("\n\ncaused by\n", cause)] if cause is not None else []
        waiting += [("\n\nthe group holds\n", each) for each in reversed(held)]
    return "".join(parts)


def _one(error: BaseException, folder: Path) -> str:
    """One error of a chain: its frames, and what it says."""
    prefix = str(folder) + os.sep
    frames = traceback.extract_tb(_kept(error, "__traceback__"))
    own = [frame for frame in frames if frame.filename.startswith(prefix)]
    located = isinstance(error, SyntaxError) and isinstance(error.text, str) and bool(error.text)
    shown = own or ([] if located else list(frames)[-3:])  # a located error's own place follows the frames
    lines: list[str] = []
    for number, frame in enumerate(shown):
        if len(shown) > MAX_FRAMES and MAX_FRAMES // 2 <= number < len(shown) - MAX_FRAMES // 2:
            if number == MAX_FRAMES // 2:
                lines.append(f"  ... {len(shown) - MAX_FRAMES} more frames ...")
            continue
        lines.append(f"  {frame.filename.removeprefix(prefix)}:{frame.lineno} in {frame.name}")
        if frame.line:
            lines.append(f"      {frame.line[:MAX_LINE_CHARACTERS]}")
    if located and isinstance(error, SyntaxError) and error.text:
        lines.append(f"  {error.filename or '?'}:{error.lineno}")
        lines.append(f"      {error.text.rstrip()[:MAX_LINE_CHARACTERS]}")
    message = text_of(error)
    lines.append(f"{kind_of(error)}: {message}" if message else kind_of(error))
    return "\n".join(lines).replace(prefix, "")
