"""Definitions of data sets in the formats of FlashInfer trace and SOL-ExecBench, beside the targets.

Their texts are read once when the server starts, for names and reasons, and again whenever one is asked for, so that a
judgement is by what lies there then. The tensors of stored inputs stay where they are: of these the headers are read
once a definition is opened. Nothing is imported or run. What is kept of a solution is its file, as a data set has it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from aisp.engine.doors import api
from aisp.engine.doors.serve import definitions, solutions
from aisp.engine.doors.serve.bodies import MOST_NAME, Solution
from aisp.engine.doors.serve.evaluations import ALONE
from aisp.engine.doors.serve.refusals import Kind, RefusalError
from aisp.kernels import catalog
from aisp.kernels.catalog.formats import Part, trace
from aisp.kernels.catalog.formats.trace_definition import Workload, one_line
from aisp.kernels.catalog.formats.trace_target import Plan
from aisp.kernels.catalog.model import Problem, Target
from aisp.store.text import clean_line, file_stem

log = logging.getLogger("aisp.serve")

MOST_STEM = 50  # characters of a folder that is called after it, of up to four bytes each
MOST_TOLD = 20
"""Definitions that the log names with their reasons."""
_FILE = "solution.json"
_WORD = re.compile(r"[A-Za-z0-9._:-]{1,100}")
_MARK = b"\xef\xbb\xbf"  # of UTF-8, which JSON over HTTP has not


class ProblemsError(ValueError):
    """A path, or a name in it, that cannot be served."""


@dataclass(frozen=True, slots=True)
class OfDataSet:
    """A definition of a data set; a solution is judged in a target that is made for it.

    Attributes:
        name, description: as it says.
        path: of its file.
        digest: of its text and of its workloads', as they were when the server started.
    """

    name: str
    description: str
    path: Path
    digest: str

    @property
    def rung(self) -> str:
        return ALONE

    def summary(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description}

    def document(self) -> Any:
        """See Definition: its file, as its author wrote it."""
        text, _ = self._open()
        return msgspec.Raw(text.data.removeprefix(_MARK))

    def workloads(self, device: str = "") -> list[dict[str, Any]]:
        """See Definition: those of the data set on every device, since each has its own sizes."""
        _, plan = self._open()
        return [
            _plain({**workload.written, "uuid": self.uuid_of(workload), "case": workload.case if number else "default"})
            for number, workload in enumerate(plan.definition.workloads)
        ]

    def uuid_of(self, workload: Workload) -> str:
        """The workload's own uuid; one of ours where that is no plain word."""
        return workload.uuid if _WORD.fullmatch(workload.uuid) else definitions.derived(self.name, workload.uuid)

    def sources(self) -> str:
        return self._text().digest

    def files_of(self, solution: Solution) -> dict[str, bytes]:
        """See Definition. A source that Python cannot compile is kept: that is an evaluation."""
        files = {_FILE: msgspec.json.encode(solution)}
        if not self.misspelt(files) and (problems := self._parts(files)[1]):
            raise RefusalError(Kind.INVALID, _told(problems), "docs/formats.md says what a solution may be")
        return files

    def misspelt(self, files: Mapping[str, bytes]) -> str:
        sources = msgspec.json.decode(files[_FILE], type=Solution).sources
        return solutions.misspelt({source.path: source.content.encode() for source in sources}, "")

    def made(self, files: Mapping[str, bytes]) -> Target:
        found, problems = self._parts(files)
        if problems:
            raise api.RefusedError(_told(problems))
        name = msgspec.json.decode(files[_FILE], type=Solution).name
        return api.written_target(file_stem(self.name)[:MOST_STEM], file_stem(name)[:MOST_STEM], found)

    def _parts(self, files: Mapping[str, bytes]) -> tuple[Mapping[str, bytes], Sequence[Problem]]:
        """The target's files, or why there are none."""
        text, plan = self._open()
        parts = trace.answered(text, plan, files[_FILE])
        return parts.files, parts.problems

    def _text(self) -> trace.Text:
        try:
            return trace.text(self.path)
        except OSError as error:
            raise closed(self.name, _unread(error)) from None

    def _open(self) -> tuple[trace.Text, Plan]:
        text = self._text()
        try:
            return text, trace.plan(text)
        except trace.BrokenError as error:
            raise closed(self.name, _told(error.problems)) from None


def closed(name: str, why: str) -> RefusalError:
    """A definition that is there and cannot be opened."""
    fix = "mend its files; a definition that could not be opened at the start needs the server started anew"
    return RefusalError(Kind.INVALID, f"the definition {clean_line(name)} cannot be opened: {why}", fix)


@dataclass(frozen=True, slots=True)
class Problems:
    """The definitions of some data sets, as they were when the server started.

    Attributes:
        found: by name.
        left_out: why one cannot be opened, by its name; by its file's where it has none.
        uuids: of each workload, with the name of the first definition that has it.
    """

    found: Mapping[str, OfDataSet] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    uuids: Mapping[str, str] = field(default_factory=dict)

    def tell(self) -> None:
        """What was left out, in the log."""
        if not self.left_out:
            return
        told = [f"{clean_line(name)}: {why}" for name, why in self.left_out.items()]
        more = [f"and {len(told) - MOST_TOLD:,} more"] if len(told) > MOST_TOLD else []
        served = f"{len(self.found):,} definitions of data sets are served"
        log.warning("%s, %d cannot be opened: %s", served, len(told), "; ".join(told[:MOST_TOLD] + more))


def read(paths: Sequence[Path], roots: Sequence[Path] = ()) -> Problems:
    """The definitions at some paths, each of a collection, a problem's folder or a file.

    Args:
        roots: collections of targets that are served beside them; the shipped one where there is none.

    Raises:
        ProblemsError: a path has none, or a name is a target's too.
    """
    found: dict[str, OfDataSet] = {}
    left_out: dict[str, str] = {}
    uuids: dict[str, str] = {}
    for path in paths:
        if trace.part(path) not in (Part.PROBLEM, Part.COLLECTION):
            raise ProblemsError(
                f"{clean_line(str(path))} holds no definitions of {trace.TITLE}; name a data set's folder, a "
                "problem's, or the file of a definition (docs/formats.md)"
            )
        for listed in trace.definitions(path):
            name = ""
            try:
                text = trace.text(listed.path)
                name = trace.named(text.data)
                definition = trace.definition(text)
                if one_line(name, limit=MOST_NAME) != name:
                    raise ProblemsError(f"its name is no plain line of at most {MOST_NAME} characters")
                if name in found and found[name].path != listed.path:
                    raise ProblemsError(f"{clean_line(str(found[name].path))} has this name too, and is served")
            except trace.BrokenError as error:
                left_out[name or listed.name] = _told(error.problems)
                continue
            except (ProblemsError, OSError) as error:
                why = str(error) if isinstance(error, ProblemsError) else _unread(error)
                left_out[str(listed.path)] = why
                continue
            description = one_line(definition.description, limit=500)
            found[name] = OfDataSet(name, description, listed.path, text.digest)
            for workload in definition.workloads:
                uuids.setdefault(found[name].uuid_of(workload), name)
    for target in catalog.load(list(roots) or None).targets if found else ():
        for name in {target.id, target.name} & found.keys():
            raise ProblemsError(
                f"{clean_line(str(found[name].path))} is called {name}, and so is the target {target.id}: which of the "
                "two a solution is for could not be known; rename the definition, or serve the two apart (--root)"
            )
    return Problems(found, left_out, uuids)


def _told(problems: Sequence[Problem]) -> str:
    return "; ".join(clean_line(str(problem), limit=500) for problem in problems[:3])


def _unread(error: OSError) -> str:
    return clean_line(f"it cannot be read: {error.strerror or error}")


def _plain(written: dict[str, Any]) -> dict[str, Any]:
    """A document of others without what is no UTF-8."""
    found: dict[str, Any] = json.loads(json.dumps(written, ensure_ascii=False).encode("utf-8", "replace"))
    return found
