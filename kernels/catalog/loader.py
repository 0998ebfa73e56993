"""Finds targets under one or more roots and reads them, without importing any.

A root is one of: the shipped collection (`chNN_title/` and `labs/<name>/` folders that hold targets), a
folder of a user's own that holds targets or folders of targets, one chapter, one target, or one Python file that is a
target by itself (`onefile`). Whatever cannot be loaded becomes a `Problem`; everything else still loads.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from . import frontmatter, onefile, sources
from .model import Catalog, Chapter, Goal, Kind, Needs, Problem, Role, Rung, Target

_CHAPTER = re.compile(r"ch(\d{1,3})(?:_(.*))?\Z", re.DOTALL)
# Signs and blanks at its end are stripped later: looked for here, they would cost the square of the line's length.
_HEADING = re.compile(r"^#[ \t]+(.+)$", re.MULTILINE)
_NUMBERED = re.compile(r"(?:chapter|ch)\.?\s*\d+\s*[:.,·—–-]*\s*", re.IGNORECASE)
_ROLES = (
    ("baseline", Role.BASELINE),
    ("optimized", Role.OPTIMIZED),
    ("peer", Role.PEER),
    ("wrong", Role.WRONG),
    ("cheat", Role.CHEAT),
)
_WITHOUT_SUFFIX = (Role.BASELINE, Role.OPTIMIZED, Role.CHEAT)  # may stand alone: baseline.py
# Any of these makes a folder one that somebody meant as a target.
_SIGNS = (sources.LESSON, "baseline.py", "optimized.py", "reference.py")
MAX_README_BYTES = 2**20
MAX_ENTRIES = 20_000  # of one folder: beyond that it is no collection of targets


def shipped_root() -> Path:
    """The collection that comes with aisp."""
    return Path(__file__).resolve().parent.parent


def load(roots: Sequence[Path] | None = None) -> Catalog:
    """Read every target under `roots`, or under the shipped collection where None is given.

    Never raises for what stands on disk: a root that is not there is a Problem like any other. A folder that
    two roots reach is read once. Chapters come by number, then labs, then other folders; targets follow their
    chapter.
    """
    paths = [shipped_root()] if roots is None else list(roots)
    finding = _Finding()
    for root in paths:
        finding.root(root)
    chapters = tuple(finding.sorted_chapters())
    order = {chapter.id: place for place, chapter in enumerate(chapters)}
    targets: dict[str, Target] = {}
    for target in finding.targets:
        first = targets.setdefault(target.id, target)
        if first is not target:
            finding.problems.append(
                Problem(
                    target.folder,
                    "",
                    f"the id {target.id} is taken by {first.folder}",
                    "rename one of the two folders",
                )
            )
    return Catalog(
        roots=tuple(map(_absolute, paths)),
        chapters=chapters,
        targets=tuple(sorted(targets.values(), key=lambda target: (order[target.chapter], target.id))),
        problems=tuple(finding.problems),
    )


def list_ids(roots: Sequence[Path] | None = None) -> dict[str, Path]:
    """The folders that look like targets under `roots`, by id, and whether or not they load: no lesson is read. For
    what must answer between two key strokes."""
    walk = _Names()
    for root in [shipped_root()] if roots is None else roots:
        walk.root(root)
    return walk.named


def load_target(folder: Path, *, root: Path, chapter: str) -> Target | list[Problem]:
    """Read the target in `folder`, or say everything that is wrong with it.

    Args:
        folder: holds lesson.md and the rungs, or is one file that is made into these. Its name is the target's.
        root: the collection that it was found in.
        chapter: the chapter's id.
    """
    # Under the name it was found by, even a link's: reading `target.folder` again gives the same target.
    folder = _absolute(folder)
    name = _name(folder)
    try:
        if onefile.is_one_file(folder) and (refused := onefile.read(folder).problems):
            from .formats import next_move  # every format: only where a file is no target of ours

            return [foreign] if (foreign := next_move(folder)) is not None else list(refused)
        listing = sources.list_files(folder)
    except OSError as error:
        message = f"cannot be read: {sources.reason(error)}"
        return [Problem(folder, "", message, "check that it is there and readable")]
    lesson = folder / sources.LESSON
    try:
        data = sources.read_bytes(str(lesson))
    except FileNotFoundError:
        return [Problem(lesson, "", "missing", "write one, or let `aisp new NAME` make a folder to start from")]
    except OSError as error:
        return [Problem(lesson, "", f"cannot be read: {sources.reason(error)}", "check that it is a readable file")]
    if len(data) > frontmatter.MAX_LESSON_BYTES:
        message = f"the lesson has {len(data)} bytes"
        return [Problem(lesson, "", message, f"keep it within {frontmatter.MAX_LESSON_BYTES}")]
    matter, reported = frontmatter.read(lesson, data)
    if matter is not None and matter.links:
        with contextlib.suppress(OSError):  # gone since: what was seen of it stands
            listing = sources.list_files(folder, matter.links)
    if listing.excess is not None:
        return [listing.excess]
    files = listing.files
    refusal = matter is not None and matter.goal is Goal.REFUSAL
    problems = [*reported, *_missing_files(folder, listing, refusal=refusal)]
    if matter is None or problems:
        return problems
    roles = rungs_among(files)
    for rung in matter.rungs:
        if rung not in roles:
            message = f"there is no file {rung}.py that is a rung"
            fix = _nearest(rung, list(roles), "rungs are baseline*, optimized*, peer_*, wrong_* and cheat*")
            problems.append(Problem(lesson, f"rungs.{rung}", message, fix))
    made = [spec.name for spec in matter.inputs if spec.made]
    posed = [spec.name for spec in matter.inputs if spec.posed]
    for names, how, entry in ((made, "made", "make"), (posed, "posed", "pose")):
        if names and "inputs.py" not in files:
            message = f"{', '.join(names)} is {how}, and inputs.py is missing"
            fix = f"write inputs.py with {entry}(axes, device, generator)"
            problems.append(Problem(lesson, f"inputs.{names[0]}", message, fix))
    if matter.rule is not None and "rule.py" not in files:
        fix = "write rule.py with judge(inputs, outputs, expected)"
        problems.append(Problem(lesson, "rule", "rule.py is missing", fix))
    if problems:
        return problems
    kinds = sources.find_kinds(folder, files, list(roles))
    return Target(
        id=f"{chapter}:{name}",
        chapter=chapter,
        name=name,
        title=matter.title,
        folder=folder,
        root=root,
        goal=matter.goal,
        needs=matter.needs,
        formerly=tuple(word if ":" in word else f"{chapter}:{word}" for word in matter.formerly),
        techniques=matter.techniques,
        inputs=matter.inputs,
        outputs=matter.outputs,
        cases=matter.cases,
        flops=matter.flops,
        bytes=matter.bytes,
        tolerance=dict(matter.tolerance),
        rungs=tuple(
            _rung(folder, rung, role, kinds[rung], matter.needs, matter.rungs.get(rung)) for rung, role in roles.items()
        ),
        expect=matter.expect,
        lesson=matter.lesson,
        fuzz=matter.fuzz,
        judged=matter.judged,
        rule=matter.rule,
        stated=matter.stated,
        ranks=matter.ranks,
        precision=matter.precision,
        link=matter.link,
        links=matter.links,
        files=files,
        left_out=(*listing.left_out, *sources.survey(folder, listing, matter.links)),
    )


def _rung(folder: Path, name: str, role: Role, kind: Kind, needs: Needs, notes: frontmatter.RungNotes | None) -> Rung:
    gpu_only = kind is Kind.CUDA
    if notes is not None and notes.needs is not None:
        needs = notes.needs
        gpu_only = gpu_only or needs.gpus > 0
    if kind is Kind.CUDA and needs.gpus == 0:
        needs = replace(needs, gpus=1)
    return Rung(
        name=name,
        role=role,
        kind=kind,
        path=folder / f"{name}.py",
        needs=needs,
        summary=notes.summary if notes else "",
        inexact=notes.inexact if notes else False,
        gpu_only=gpu_only,
        supports=notes.supports if notes else {},
        instructions=notes.instructions if notes else (),
        formerly=notes.formerly if notes else "",
        expect=notes.expect if notes else None,
        parameters=notes.parameters if notes else (),
    )


def rungs_among(files: tuple[str, ...]) -> dict[str, Role]:
    """Names of the rungs among `files`, in the order in which they are shown."""
    roles: dict[str, Role] = {}
    for prefix, role in _ROLES:
        if role in _WITHOUT_SUFFIX and f"{prefix}.py" in files:
            roles[prefix] = role
        for name in files:
            if name.startswith(f"{prefix}_") and name.endswith(".py") and "/" not in name:
                roles[name.removesuffix(".py")] = role
    return roles


def _missing_files(folder: Path, listing: sources.Listing, *, refusal: bool) -> list[Problem]:
    files = listing.files
    purposes = {
        "reference.py": "write run(...) there in fp64, plain PyTorch: it decides what is right",
        "baseline.py": "write run(...) there as a competent engineer would first",
        "optimized.py": "write run(...) there with the lesson applied",
    }
    problems = []
    if refusal and Role.WRONG in rungs_among(files).values():
        del purposes["optimized.py"]
    for name, purpose in purposes.items():
        if name not in files:
            near = difflib.get_close_matches(name, [file for file in files if file not in purposes], n=1, cutoff=0.8)
            fix = f"rename {near[0]} to {name}" if near else purpose
            problems.append(Problem(folder / name, "", "missing", fix))
    needed = [folder / name for name in purposes]
    return problems + [problem for problem in listing.left_out if problem.path in needed]


def _nearest(name: str, names: list[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise}; there is {', '.join(names)}"


def _name(folder: Path) -> str:
    """The name of the target there: the folder's, or the file's without its suffix."""
    return _label(folder.stem if onefile.is_one_file(folder) else folder.name)


def _label(name: str) -> str:
    """A folder's name as text that can be sent, stored and drawn: what is not UTF-8 or printable, escaped."""
    if name.isascii() and name.isprintable():
        return name
    shown = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


class _Listing:
    """One folder as the walk sees it: names of its files, and of its sub-folders less hidden ones."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        """List `path`; what is wrong below it goes to `problems`. Raises OSError."""
        self.path = path
        self._problems = problems
        self.files: set[str] = set()
        folders: list[tuple[bool, str]] = []
        with os.scandir(path) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_ENTRIES:
                    break
                try:
                    if not entry.is_dir():
                        self.files.add(entry.name)
                    elif not entry.name.startswith(".") and entry.name != "__pycache__":
                        folders.append((entry.is_symlink(), entry.name))
                except OSError:  # gone while we looked, or a link in a circle
                    continue
        # Links come last, so that a folder is met under its own name first.
        self.folders = [name for _, name in sorted(folders)]

    @property
    def is_target(self) -> bool:
        """Whether somebody meant this folder as a target."""
        return not self.files.isdisjoint(_SIGNS)

    @property
    def is_chapter(self) -> bool:
        """Whether this folder is named as a chapter or holds a target."""
        return _CHAPTER.match(self.path.name) is not None or any(child.is_target for child in self.children)

    @cached_property
    def children(self) -> list[_Listing]:
        """Its sub-folders, without those that cannot be read, which are problems."""
        listings = []
        for name in self.folders:
            try:
                listings.append(_Listing(self.path / name, self._problems))
            except (FileNotFoundError, NotADirectoryError):  # gone while we looked
                continue
            except OSError as error:
                self._problems.append(_unreadable(self.path / name, error))
        return listings


@dataclass
class _Finding:
    """What a walk over the roots has met so far."""

    chapters: dict[str, Chapter] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    seen: set[tuple[int, int]] = field(default_factory=set)  # device and inode of folders already met

    def sorted_chapters(self) -> list[Chapter]:
        """By number, then labs, then other folders."""

        def key(chapter: Chapter) -> tuple[int, int, str]:
            if chapter.number is not None:
                return 0, chapter.number, chapter.id
            return (1 if chapter.id.startswith("labs/") else 2), 0, chapter.id

        return sorted(self.chapters.values(), key=key)

    def root(self, path: Path) -> None:
        """Take in one root, whatever of the six shapes it has."""
        root = _absolute(path)
        if onefile.is_one_file(root):
            self.target(root, root, _name(root))
            return
        try:
            listing = _Listing(root, self.problems)
        except OSError as error:
            self.problems.append(_unreadable(root, error))
            return
        if _identity(root) in self.seen:
            return
        before = len(self.targets) + len(self.problems) + len(self.chapters)
        if root.name == "labs":
            self.labs(listing, root)
        elif root.parent.name == "labs":
            self.chapter(listing, root)
        elif listing.is_target:
            self.target(root, root, _chapter_id(root.parent))
        else:
            if listing.is_chapter:
                self.chapter(listing, root)
            self.seen.add(_identity(root))
            for child in listing.children:
                if child.is_target:
                    continue
                if child.path.name == "labs":
                    self.labs(child, root)
                elif child.is_chapter:
                    self.chapter(child, root)
        if before == len(self.targets) + len(self.problems) + len(self.chapters):
            fix = "a target is a folder with lesson.md and baseline.py, or a Python file with functions like baseline"
            self.problems.append(Problem(root, "", "holds no targets", f"{fix}; `aisp new my_kernel` makes one"))

    def labs(self, listing: _Listing, root: Path) -> None:
        """Take in every lab of a `labs` folder."""
        for lab in listing.children:
            if lab.is_target or lab.is_chapter:
                self.chapter(lab, root)

    def chapter(self, listing: _Listing, root: Path) -> None:
        """Take in the targets of one chapter, lab or folder. A lab may itself be a target too."""
        if self._met(listing.path) and not listing.is_target:
            return
        chapter = _chapter_id(listing.path)
        self._add_chapter(chapter, listing.path)
        if listing.is_target:
            self.seen.discard(_identity(listing.path))
            self.target(listing.path, root, chapter)
        for child in listing.children:
            if child.is_target:
                self.target(child.path, root, chapter)

    def target(self, folder: Path, root: Path, chapter: str) -> None:
        """Take in one target, unless it was met before."""
        if self._met(folder):
            return
        loaded = load_target(folder, root=root, chapter=chapter)
        if isinstance(loaded, Target):
            self._add_chapter(chapter, folder if onefile.is_one_file(folder) else folder.parent)
            self.targets.append(loaded)
            self.problems.extend(loaded.left_out)
        else:
            target_id = f"{chapter}:{_name(folder)}"
            self.problems.extend(replace(problem, target=target_id) for problem in loaded)

    def _add_chapter(self, chapter: str, folder: Path) -> None:
        if chapter not in self.chapters:
            readme = _readme(folder)
            match = _CHAPTER.match(folder.name)
            number = int(match.group(1)) if match and not chapter.startswith("labs/") else None
            self.chapters[chapter] = Chapter(chapter, number, _title(folder, readme), folder, readme)

    def _met(self, folder: Path) -> bool:
        """Whether the walk came by this folder before, under whatever name. Remembers that it has now."""
        identity = _identity(folder)
        met = identity in self.seen
        self.seen.add(identity)
        return met


@dataclass
class _Names(_Finding):
    """A walk that takes down where targets stand, and reads none."""

    named: dict[str, Path] = field(default_factory=dict)

    def target(self, folder: Path, root: Path, chapter: str) -> None:
        """Take down one target, unless it was met before."""
        if not self._met(folder):
            self.named.setdefault(f"{chapter}:{_name(folder)}", folder)

    def _add_chapter(self, chapter: str, folder: Path) -> None:
        """No README is read."""


def _absolute(path: Path) -> Path:
    """Absolute and without dots, but with its links kept: a link may have the better name."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - Path.resolve would follow links


def _identity(folder: Path) -> tuple[int, int]:
    try:
        status = os.stat(folder)  # noqa: PTH116 - hot path
    except OSError:
        return (-1, -1)
    return status.st_dev, status.st_ino


def _unreadable(root: Path, error: OSError) -> Problem:
    if isinstance(error, FileNotFoundError):
        return Problem(root, "", "no such folder", "check the path, or make a target there with `aisp new my_kernel`")
    if isinstance(error, NotADirectoryError):
        return Problem(root, "", "not a folder", f"give the folder that holds it: {root.parent}")
    return Problem(root, "", f"cannot be read: {sources.reason(error)}", "check its permissions")


def _chapter_id(folder: Path) -> str:
    if folder.parent.name == "labs":
        return f"labs/{_label(folder.name)}"
    match = _CHAPTER.match(folder.name)
    if match:
        return f"ch{int(match.group(1)):02d}"
    return _label(folder.name) or "root"


def _title(folder: Path, readme: str) -> str:
    """The README's first heading without a leading "Chapter 7:", else the folder's name in words."""
    heading = _HEADING.search(readme)
    if heading:
        title = heading.group(1).rstrip("\r").rstrip(" \t#")
        words = _NUMBERED.sub("", title, count=1) if _NUMBERED.match(title) else title
        if words.strip():
            return words.strip()
    match = _CHAPTER.match(folder.name)
    words = (match.group(2) or folder.name) if match else folder.name.removesuffix(onefile.SUFFIX)
    words = _label(words).replace("_", " ").strip() or "root"
    return words[:1].upper() + words[1:]


def _readme(folder: Path) -> str:
    try:
        data = sources.read_bytes(str(folder / "README.md"))
    except OSError:
        return ""
    return data[:MAX_README_BYTES].decode("utf-8", "backslashreplace").removeprefix("\ufeff").replace("\r\n", "\n")
