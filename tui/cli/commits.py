"""The commits that touched a folder between two times, with the sources that each left there, read by git.

Git is asked a few questions that run nothing of the repository's: no hooks, no pager, no diff drivers. It gets nothing
to type into, and little time.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from aisp.kernels.catalog.sources import LESSON, MAX_FILE_BYTES, MAX_FILES, MAX_SUBFOLDERS, SUFFIXES
from aisp.store.results.bisection import Version
from aisp.store.text import clean_line

PATIENCE_S = 20.0
MAX_COMMITS = 500
_GIT = (
    *("git", "--no-pager", "--no-optional-locks", "--literal-pathspecs"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
)
_FILE_MODES = (b"100644", b"100755")


class NoCommitsError(Exception):
    """There is nothing that git could say of the folder; the message says why."""


def touching(folder: Path, since_s: float, until_s: float) -> list[Version]:
    """The folder's sources as commits reachable from HEAD left them that touched it after `since_s` and until `until_s`
    (seconds since 1970), oldest first.

    Raises:
        NoCommitsError: git is not there, the folder is in no checkout, or git did not answer in time.
    """
    if not folder.is_dir():
        why = "is one file, and commits are those of a folder" if folder.exists() else "is not there any more"
        raise NoCommitsError(f"{clean_line(os.fspath(folder))} {why}")
    _ask(folder, "rev-parse", "--show-prefix")
    log = _ask(
        *(folder, "log", "--no-show-signature", "--no-color", "-z", f"--max-count={MAX_COMMITS}"),
        *("--format=%H%n%ct%n%s", f"--since=@{int(since_s)}", f"--until=@{int(until_s) + 1}", "HEAD", "--", "."),
    )
    found = []
    blobs: dict[bytes, bytes] = {}
    for entry in reversed(log.split(b"\0")):
        commit, _, rest = entry.partition(b"\n")
        seconds, _, subject = rest.partition(b"\n")
        if commit and since_s < int(seconds) <= until_s:
            files = _files(folder, commit.decode(), blobs)
            wall = datetime.fromtimestamp(int(seconds)).astimezone().isoformat()
            title = clean_line(subject.decode("utf-8", "replace"))
            found.append(Version(files, {}, wall=wall, commit=commit.decode(), subject=title))
    return found


def _files(folder: Path, commit: str, blobs: dict[bytes, bytes]) -> dict[str, bytes]:
    """The sources below the folder at a commit; `blobs` are contents by their id, added to."""
    named: dict[str, bytes] = {}
    for line in _ask(folder, "ls-tree", "-r", "-z", "-l", commit).split(b"\0"):
        facts, tab, path = line.partition(b"\t")
        if not tab:
            continue
        mode, kind, blob, size = facts.split()
        name = os.fsdecode(path)
        parts = name.split("/")
        hidden = any(part.startswith(".") or part == "__pycache__" for part in parts)
        source = name.endswith(SUFFIXES) or name == LESSON
        if kind == b"blob" and mode in _FILE_MODES and source and not hidden and len(parts) <= MAX_SUBFOLDERS + 1:
            if int(size) > MAX_FILE_BYTES:
                continue
            named[name] = blob
    if len(named) > MAX_FILES:
        raise NoCommitsError(f"commit {commit[:12]} has more than {MAX_FILES} sources there")
    missing = sorted({blob for blob in named.values() if blob not in blobs})
    if missing:
        told = _ask(folder, "cat-file", "--batch", given=b"\n".join(missing) + b"\n")
        at = 0
        for blob in missing:
            end = told.index(b"\n", at)
            size = told[at:end].split()[-1]
            if not size.isdigit():
                raise NoCommitsError(f"git lacks a file of commit {commit[:12]}")
            blobs[blob] = told[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
    return {name: blobs[blob] for name, blob in named.items()}


def _ask(folder: Path, *words: str, given: bytes = b"") -> bytes:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    asked: Sequence[str | Path] = [*_GIT, *words]
    try:
        answer = subprocess.run(
            asked,
            cwd=folder,
            input=given,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
            env={**own, "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise NoCommitsError("git is not installed here") from None
    except subprocess.TimeoutExpired:
        raise NoCommitsError(f"git {words[0]} did not answer within {PATIENCE_S:.0f} s") from None
    except OSError as error:
        raise NoCommitsError(f"git cannot be run: {error.strerror or error}") from None
    if answer.returncode != 0:
        said = clean_line(answer.stderr.decode("utf-8", "replace").strip().split("\n")[0])
        raise NoCommitsError(said.removeprefix("fatal: ") or f"git {words[0]} ended with {answer.returncode}")
    return answer.stdout
