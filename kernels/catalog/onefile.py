"""One Python file as a target: `reference`, `baseline` and `optimized` beside each other, and how they are taken apart.

    axes = {"M": 4096, "N": 4096}

    def reference(x: "bfloat16 [M, N] normal") -> "bfloat16 [M, N]":
        return torch.softmax(x, -1)

    def baseline(x): ...

    def optimized(x): ...

The file is read by its syntax tree and never imported. It becomes the files of a target's folder: a lesson.md made of
its literals and annotations, and a module for the reference and for each rung. A module holds what its function needs
and nothing else, found by the names that it uses, in turn: so the verifier has no line of a rung, rungs share no state,
and a diff of two rungs shows what is different. Every line keeps its number, blank lines stand for what is left out:
`optimized.py:14` in a traceback is line 14 of the file.

What cannot be taken apart is refused with its line: star imports, statements with an effect of their own (a seed, a
loop, a print), a name that is bound twice, `exec`. The path of the file stands for the folder, and `sources` reads
`softmax.py/optimized.py`.

`take` makes a module of one function of any file, a script or a test as well: there it is refused only what touches the
names that the function needs.
"""

from __future__ import annotations

import ast
import math
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import frontmatter
from .grammar import GrammarError, evaluate, names
from .model import UNCOUNTED, Problem, Role, TensorSpec
from .parsing import REFUSALS, misspelt, parsed, symbols
from .tensors import parse_tensor, shape

SUFFIX = ".py"
MAX_BYTES = 2**20  # of the file
MAX_PARTS_BYTES = 16 * 2**20  # of all that is made of it
MAX_DEPTH = 32  # of a literal
HOST_ELEMENTS = 2**18  # of the largest tensor of a case that is made for a CPU
LITERALS = ("axes", "title", "flops", "bytes", "tolerance", "cases", "summary", "needs")
"""Module-level names that describe the target; `axes` alone must be there where a tensor has one."""

_ENTRIES = ("run", "prepare")  # what the engine looks for in a module
_UNFOLLOWED = ("exec", "eval", "globals")  # reach names that no reading finds
_SIGNATURE = 'def reference(x: "float32 [M, N] normal") -> "float32 [M, N]":'
_FIXES = {
    "axes": 'write axes = {"M": 4096, "N": 4096}',
    "cases": 'write cases = [{"name": "ragged", "axes": {"M": 1023}, "timed": False}]',
    "tolerance": 'write tolerance = {"bfloat16": 2e-2}; 0 means bit-equal',
    "needs": 'write needs = {"sm": 80, "gpus": 1}, or leave it out where a CPU is enough',
    "title": 'write title = "what the optimized version does differently"',
    "summary": 'write summary = "what is done here"',
    "flops": 'write flops = "2*M*N", an expression over the axes, or leave it out',
    "bytes": 'write bytes = "2*M*N*4", an expression over the axes, or leave it out',
}
_COOKIE = re.compile(r"#.*?coding[:=]")
_BETWEEN_OUTPUTS = re.compile(r"(?<=\])\s*,")


@dataclass(frozen=True, slots=True)
class Parts:
    """What one file was made into.

    Attributes:
        files: the files of a target's folder by name; of a file that cannot be taken apart itself, under its own name.
        problems: why it cannot be.
        imports: modules that it imports, with the line.
    """

    files: Mapping[str, bytes]
    problems: tuple[Problem, ...] = ()
    imports: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """One function of a file, taken out of it.

    Attributes:
        module: the source of a module with what the function needs and nothing else; its `run` is the function.
        uses: names of the file that it needs, its own among them.
        summary: the first line of its docstring.
        problems: why it cannot be taken; the rest is empty then.
    """

    module: bytes = b""
    uses: frozenset[str] = frozenset()
    summary: str = ""
    problems: tuple[Problem, ...] = ()


def is_one_file(path: Path) -> bool:
    """Whether the path is a Python file rather than a folder."""
    try:
        return path.suffix == SUFFIX and stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def read(path: Path) -> Parts:
    """Take the file apart as it stands now. Raises OSError where it cannot be read."""
    from .sources import read_bytes  # it reads parts through this module

    if os.path.realpath(path) == os.path.abspath(path):  # noqa: PTH100  no link is on the way
        data = read_bytes(os.fspath(path))
    else:
        from .formats.shared import contents  # all dialects with it

        data = contents(path)
    parts = split(path, data)
    problem = _beside(path, parts.imports)
    return parts if problem is None else Parts({path.name: data}, (problem,))


def take(path: Path, data: bytes, name: str) -> Taken:
    """Take the function `name` out of what `path` holds, with all that it needs. Looks for modules beside the file."""
    reader = Reader(path)
    try:
        return reader.take(data, name)
    except (frontmatter.RefusedError, RecursionError) as error:
        return Taken(problems=reader.ended(error))


def _beside(path: Path, imports: Iterable[tuple[str, int]]) -> Problem | None:
    """Why an import cannot come along: the module lies beside the file, and is not in its parts. What is installed
    can."""
    for name, line in imports:
        if (path.parent / f"{name}.py").is_file() or (path.parent / name / "__init__.py").is_file():
            message = f"{name} lies beside the file, and a run has this file alone"
            fix = "move what is needed into the file, or make a folder of it: `aisp new my_kernel`"
            return Problem(path, f"line {line}", message, fix)
    return None


@lru_cache(maxsize=64)  # read again for each of its parts, and after every save
def split(path: Path, data: bytes) -> Parts:
    """Take apart what `path` holds. Reads nothing."""
    reader = Reader(path)
    try:
        return reader.parts(data)
    except (frontmatter.RefusedError, RecursionError) as error:
        return Parts({path.name: data}, reader.ended(error))


@dataclass(slots=True)
class _Unit:
    """Statements that share their lines, with the comment above them.

    Attributes:
        nodes: the statements.
        first, last: lines, counted from 1.
        text: those lines, without the decorators that mark a rung.
        binds, needs: names of the module that it makes, and that it uses.
        rung: a decorator marks it as one.
        effects: why it cannot be given to the parts that need it: line, reason and fix.
    """

    nodes: list[ast.stmt]
    first: int
    last: int
    text: list[str]
    binds: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    rung: bool = False
    effects: tuple[tuple[int, str, str], ...] = ()

    @property
    def lone(self) -> ast.stmt | None:
        """The one statement that it is; None of several."""
        return self.nodes[0] if len(self.nodes) == 1 else None


class Reader(frontmatter.Collector):
    """One pass over one file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lines: list[str] = []
        self._units: list[_Unit] = []
        self._bound: dict[str, list[_Unit]] = {}
        self._at: dict[str, int] = {}  # line of what the front matter has by that key

    def parts(self, data: bytes) -> Parts:
        """See `split`. Raises frontmatter.RefusedError."""
        tree = self.tree(data)
        self._find_units(tree)
        for unit in self._units:
            for refusal in unit.effects:
                self.wrong(*refusal)
        self.hold()
        self._refuse_twice(self._bound)
        self.hold()
        reference = self._reference()
        rungs = self._rungs(reference)
        content = self._content(tree, reference, rungs)
        self.hold()
        files = {"reference.py": self._module("reference", "reference")}
        self._judge_alone(rungs)
        files |= {f"{rung}.py": self._module(name, rung) for rung, name in rungs.items()}
        self.hold()
        if sum(map(len, files.values())) > MAX_PARTS_BYTES:
            raise self.refuse(0, f"its {len(files)} functions make more than {MAX_PARTS_BYTES:,} bytes", "split it")
        files[lesson_name()] = self._lesson(tree, content)
        return Parts(files, imports=tuple(imported(tree.body)))

    def take(self, data: bytes, name: str) -> Taken:
        """See the function. Raises frontmatter.RefusedError."""
        self._find_units(self.tree(data))
        self.hold()
        definitions = self._bound.get(name)
        if not definitions or not _entry_of(definitions[-1].lone):
            raise self.refuse(0, f"has no function {name} at its top level", f"write it there: def {name}(x): ...")
        needed = self._closure(name)
        kept = {id(unit) for unit in needed}
        uses = frozenset(bound for unit in needed for bound in unit.binds)
        for unit in self._units:
            if id(unit) in kept or any(_is_star(node) for node in unit.nodes):
                for refusal in unit.effects:
                    self.wrong(*refusal)
            elif unit.effects:
                self._refuse_touching(unit, uses, name)
        self._refuse_twice(uses)
        self.hold()
        imports = imported(node for unit in needed for node in unit.nodes)
        if (problem := _beside(self.path, imports)) is not None:
            self.problems.append(problem)
        module = self._module(name, name)
        self.hold()
        return Taken(module, uses, self._summary(name))

    def _refuse_touching(self, unit: _Unit, uses: frozenset[str], name: str) -> None:
        """Refuse a statement that stays behind and may change what the function uses."""
        for line, touched, text in _touched(unit.nodes):
            if touched in uses:
                message = f"{_cut(text)} may change {touched}, which {name} uses, and a run does not have it"
                self.wrong(line, message, f'move it into {name}, or below if __name__ == "__main__":')

    def _refuse_twice(self, names: Iterable[str]) -> None:
        for name in names:
            units = self._bound.get(name, [])
            if len(units) > 1 and name != "_" and not all(_imports_alone(unit, name) for unit in units):
                first, second = (_line(unit) for unit in units[:2])
                self.wrong(second, f"{name} is bound again, after line {first}", "give one of the two another name")

    # -- statements ------------------------------------------------------------------------------------------------

    def tree(self, data: bytes) -> ast.Module:
        """The syntax tree of what the file holds. Raises frontmatter.RefusedError."""
        if len(data) > MAX_BYTES:
            raise self.refuse(0, f"has {len(data):,} bytes", f"keep a file with its target within {MAX_BYTES:,}")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.refuse(line, f"byte {error.start} is not UTF-8", "save the file as UTF-8") from None
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        slip = misspelt(text, self.path.name)
        if slip is not None:
            message = (
                f"not Python: {slip.message}: {slip.text.strip()[:200]}" if slip.text else f"not Python: {slip.message}"
            )
            raise self.refuse(slip.line or 0, message, "repair the line, or one before it")
        try:
            tree = parsed(text)
        except REFUSALS as error:
            raise self.refuse(0, f"not Python: {str(error) or 'nested too deeply'}", "repair it") from None
        assert isinstance(tree, ast.Module)
        self._lines = text.split("\n")
        return tree

    def _find_units(self, tree: ast.Module) -> None:
        ends = 0
        groups: list[list[ast.stmt]] = []
        for node in tree.body:
            if groups and _first_line(node) <= ends:
                groups[-1].append(node)
            else:
                groups.append([node])
            ends = node.end_lineno or node.lineno
        of_aisp = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and node.module == "aisp" and not node.level
            for alias in node.names
            if alias.name == "rung"
        }
        above = 0
        for nodes in groups:
            first, last = _first_line(nodes[0]), nodes[-1].end_lineno or nodes[-1].lineno
            kept = [node for node in nodes if not says_nothing(node)]
            if kept:
                while first - 1 > above and self._lines[first - 2].startswith("#"):
                    if first - 1 <= 2 and _COOKIE.match(self._lines[first - 2]):
                        break
                    first -= 1
                unit = self._unit(nodes, first, last, of_aisp)
                unit.effects = tuple(refusal for node in kept if (refusal := effect(node)) is not None)
                self._units.append(unit)
            above = last
        for unit in self._units:
            for name in unit.binds:
                self._bound.setdefault(name, []).append(unit)

    def _unit(self, nodes: list[ast.stmt], first: int, last: int, of_aisp: set[str]) -> _Unit:
        unit = _Unit(nodes, first, last, self._lines[first - 1 : last])
        for node in nodes:
            for mark in getattr(node, "decorator_list", ()):
                if _marks_rung(mark, of_aisp):
                    unit.rung = True
                    for line in range(mark.lineno, (mark.end_lineno or mark.lineno) + 1):
                        unit.text[line - first] = ""
        try:
            table = symbols("\n".join(unit.text) + "\n")
        except REFUSALS as error:
            self.wrong(_line(unit), f"cannot be taken apart: {error}", "make it simpler")
            return unit
        own = table.get_symbols()
        made = {s.get_name() for s in own if s.is_assigned() or s.is_imported() or s.is_namespace()}
        used = {s.get_name() for s in own if s.is_referenced()}
        waiting = list(table.get_children())
        while waiting:
            inner = waiting.pop()
            waiting += inner.get_children()
            in_class = inner.get_type() == "class"  # a name that it binds may be the module's before
            used |= {s.get_name() for s in inner.get_symbols() if s.is_global() or (in_class and s.is_referenced())}
        unit.binds, unit.needs = frozenset(made), frozenset(used)
        return unit

    # -- the reference and the rungs -------------------------------------------------------------------------------

    def _reference(self) -> ast.FunctionDef:
        units = self._bound.get("reference")
        if not units:
            raise self.refuse(
                0, "has no function reference", f"write {_SIGNATURE} in plain PyTorch: it decides what is right"
            )
        node = units[0].lone
        if not isinstance(node, ast.FunctionDef):
            raise self.refuse(_line(units[0]), "reference is no function that is defined here", f"write {_SIGNATURE}")
        return node

    def _rungs(self, reference: ast.FunctionDef) -> dict[str, str]:
        """The functions that are rungs, by the name of the rung: those that are named so, and those that are marked."""
        rungs: dict[str, str] = {}
        for unit in self._units:
            node = unit.lone
            name = _entry_of(node)
            named = _is_rung(name)
            if not name or not (named or unit.rung):
                continue
            rung = name if named else f"optimized_{name}"
            if rung in rungs:
                self.wrong(_line(unit), f"{name} and {rungs[rung]} are both the rung {rung}", "rename one of them")
            rungs[rung] = name
        if unmarked := [unit for unit in self._units if unit.rung and _entry_of(unit.lone) not in rungs.values()]:
            self.wrong(_line(unmarked[0]), "only a function can be a rung", "mark a function, on lines of its own")
        signature = f"def {{}}({', '.join(arg.arg for arg in (*reference.args.posonlyargs, *reference.args.args))}):"
        if "baseline" not in rungs:
            message = "has no function baseline, and reference, which runs in fp64 as the truth, is none"
            self.wrong(0, message, f"write {signature.format('baseline')} as a competent engineer would first")
        if "optimized" not in rungs:
            others = [rung for rung in rungs if rung.startswith("optimized_")]
            fix = (
                f"rename {rungs[others[0]]} to optimized"
                if others
                else f"write {signature.format('optimized')} with the idea"
            )
            self.wrong(0, "has no function optimized", fix)
        if len(rungs) > frontmatter.MAX_RUNGS:
            self.wrong(0, f"has {len(rungs)} rungs", f"keep to {frontmatter.MAX_RUNGS}")
        self.hold()
        order = list(Role)
        return dict(sorted(rungs.items(), key=lambda item: (order.index(Role(item[0].partition("_")[0])), item[0])))

    def _judge_alone(self, rungs: Mapping[str, str]) -> None:
        """Refuse a reference that uses a rung: what is judged would be the judge."""
        used = self._closure("reference")
        for name in rungs.values():
            unit = self._bound[name][0]
            if unit in used:
                message = f"reference uses {name}, and what is judged cannot be the judge"
                self.wrong(_line(self._bound["reference"][0]), message, "write out what reference computes")

    def _closure(self, name: str) -> list[_Unit]:
        """What the module of this function needs, in the file's order."""
        wanted = {id(unit): unit for unit in self._units if _is_future(unit)}
        waiting = [name]
        seen = set(waiting)
        while waiting:
            for unit in self._bound.get(waiting.pop(), ()):
                if id(unit) not in wanted:
                    wanted[id(unit)] = unit
                    fresh = unit.needs - seen
                    seen |= fresh
                    waiting += fresh
        return [unit for unit in self._units if id(unit) in wanted]

    def _module(self, name: str, part: str) -> bytes:
        """The module of one function, with the line numbers of the file."""
        units = self._closure(name)
        entry = self._bound[name][0]
        for unit in units:
            for taken in _ENTRIES:
                if taken in unit.binds and taken != name:
                    message = f"{taken} is used by {name}, and is the engine's own name in {part}.py"
                    self.wrong(_line(unit), message, "give it another name")
            for unfollowed in _UNFOLLOWED:
                if unfollowed in unit.needs and unfollowed not in self._bound:
                    message = f"{unfollowed} may use names that cannot be seen"
                    self.wrong(_line_of_name(unit, unfollowed), message, "write out what it does")
        lines = [""] * max(unit.last for unit in units)
        for unit in units:
            lines[unit.first - 1 : unit.last] = unit.text
        node = entry.lone
        renamed = 0
        if isinstance(node, ast.FunctionDef) and not any(name in unit.needs for unit in units):
            lines[node.lineno - 1], renamed = re.subn(
                rf"^(def\s+){re.escape(name)}(?=\s*\()", r"\1run", lines[node.lineno - 1]
            )
        if not renamed and name != "run":
            lines += ["", "", f"run = {name}"]
        return ("\n".join(lines).rstrip("\n") + "\n").encode()

    # -- what the front matter says --------------------------------------------------------------------------------

    def _content(self, tree: ast.Module, reference: ast.FunctionDef, rungs: Mapping[str, str]) -> dict[str, Any]:
        literals = {name: value for name in LITERALS if (value := self._literal(name)) is not None}
        doc = (ast.get_docstring(tree) or "").strip()
        first = str(literals.get("title") or doc.partition("\n")[0]).strip()
        content: dict[str, Any] = {
            "title": " ".join(first.split()) or self.path.stem.replace("_", " "),
            "flops": literals.get("flops", UNCOUNTED),
            **{key: literals[key] for key in ("bytes", "needs", "tolerance") if key in literals},
            "axes": literals.get("axes", {}),
            "inputs": self._inputs(reference),
            "outputs": self._outputs(reference),
            "cases": literals.get("cases", []),
            "rungs": {rung: {"summary": self._summary(name)} for rung, name in rungs.items()},
        }
        self._at["rungs"] = reference.lineno
        self.hold()
        needs = content.get("needs", {})
        cases = content["cases"]
        if isinstance(cases, list) and isinstance(needs, dict) and not needs.get("gpus"):
            named = [case.get("name") for case in cases if isinstance(case, dict)]
            small = None if "cpu" in named else for_host(content)
            if small is not None:
                content["cases"] = [*cases, {"name": "cpu", "axes": small}]
        return content

    def _literal(self, name: str) -> Any:
        """The value of a module-level literal; None where there is none of that name."""
        definitions = self._bound.get(name)
        node = definitions[0].lone if definitions else None
        if not isinstance(node, ast.Assign | ast.AnnAssign) or _entry_name(node) != name:
            return None
        self._at[name] = node.lineno
        try:
            assert node.value is not None
            value = _value(node.value)
        except (GrammarError, ValueError, RecursionError):
            message = f"{name} is computed or holds what is no text, number, list or dictionary"
            self.wrong(node.lineno, message, f"{_FIXES[name]}: the file is read, not run")
            return None
        if name in ("title", "summary") and not isinstance(value, str):
            self.wrong(node.lineno, f"{name} is no text", _FIXES[name])
            return None
        return value

    def _inputs(self, reference: ast.FunctionDef) -> dict[str, str]:
        arguments = reference.args
        for other in (arguments.vararg, arguments.kwarg, *arguments.kwonlyargs):
            if other is not None:
                text = f"reference takes {other.arg} by {'name' if other in arguments.kwonlyargs else 'a star'}"
                self.wrong(other.lineno, text, f"inputs are passed one by one in their order: {_SIGNATURE}")
        plain = [*arguments.posonlyargs, *arguments.args]
        with_default = plain[len(plain) - len(arguments.defaults) :]
        lines: dict[str, str] = {}
        skipped = ""
        for arg in plain:
            self._at[f"inputs.{arg.arg}"] = arg.lineno
            if arg.annotation is None and arg in with_default:
                skipped = arg.arg  # keeps its default
                continue
            note = arg.annotation
            fix = f'write {arg.arg}: "float32 [M, N] normal", with its own type, axes and distribution'
            if note is None:
                self.wrong(arg.lineno, f"the input {arg.arg} of reference is not described", fix)
            elif not (isinstance(note, ast.Constant) and isinstance(note.value, str)):
                self.wrong(arg.lineno, f"the input {arg.arg} is annotated with {_cut(ast.unparse(note))}", fix)
            elif skipped:
                self.wrong(arg.lineno, f"the input {arg.arg} follows {skipped}, which is none", "put inputs first")
            elif own := {"made", "posed"}.intersection(note.value.split()):
                text = f"the input {arg.arg} is {own.pop()}, which takes an inputs.py"
                self.wrong(arg.lineno, text, "describe it by type, axes and distribution, or make a folder of the file")
            else:
                lines[arg.arg] = note.value
        return lines

    def _outputs(self, reference: ast.FunctionDef) -> dict[str, str]:
        note = reference.returns
        self._at["outputs"] = note.lineno if note is not None else reference.lineno
        first = next((arg.annotation for arg in (*reference.args.posonlyargs, *reference.args.args)), None)
        like = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        like = like[: like.find("]") + 1] or "float32 [M, N]"
        written = f'def reference({ast.unparse(reference.args)}) -> "{like}":'
        fix = f"write {written} with the type and the axes of what it returns"
        if note is None:
            raise self.refuse(reference.lineno, "reference does not say what it returns", fix)
        try:
            value = _value(note)
        except (GrammarError, ValueError, RecursionError):
            value = None
        if isinstance(value, str):
            value = [part.strip() for part in _BETWEEN_OUTPUTS.split(value)]
        if isinstance(value, list):
            inputs = {arg.arg for arg in (*reference.args.posonlyargs, *reference.args.args)}
            end = "_" if any(name.startswith("out") for name in inputs) else ""
            value = {f"out{index if len(value) > 1 else ''}{end}": line for index, line in enumerate(value)}
        if not isinstance(value, dict) or not value or not all(isinstance(line, str) for line in value.values()):
            raise self.refuse(note.lineno, f"reference is said to return {_cut(ast.unparse(note))}", fix)
        return value

    def _summary(self, name: str) -> str:
        node = self._bound[name][0].lone
        doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
        return (doc or "").strip().partition("\n")[0]

    def _lesson(self, tree: ast.Module, content: dict[str, Any]) -> bytes:
        import tomli_w  # only where a file is made into a folder

        title = content["title"]
        text = self._literal("summary") or (ast.get_docstring(tree) or "").strip().removeprefix(title)
        lesson = f"+++\n{tomli_w.dumps(content)}+++\n\n# {title}\n\n{text.strip()}\n".encode("utf-8", "replace")
        if len(lesson) > frontmatter.MAX_LESSON_BYTES:
            raise self.refuse(0, "describes itself at too great a length", "shorten its summary and its literals")
        _, problems = frontmatter.read(self.path, lesson)
        for problem in problems:
            self.wrong(*self._in_the_file(problem))
        self.hold()
        return lesson

    def _in_the_file(self, problem: Problem) -> tuple[int, str, str]:
        """A problem of the front matter in the words of the file: its line, what is wrong, and what would work."""
        head, _, rest = problem.key.partition(".")
        table = head.partition("[")[0]
        line = self._at.get(problem.key) or self._at.get(table, 0)
        what = rest if table in ("inputs", "rungs") else "what reference returns" if table == "outputs" else problem.key
        fix = problem.fix.replace("define it in [axes]", "add it to axes").replace("[axes]", "axes")
        if problem.fix.startswith("write ") and table in _FIXES:
            fix = _FIXES[table]
        if not self._at.get("axes") and "is used but not defined" in problem.message:
            fix = _FIXES["axes"]
        message = problem.message.replace("[axes]", "axes")
        return line, f"{what}: {message}" if what else message, fix


# -- reading statements ------------------------------------------------------------------------------------------------


def lesson_name() -> str:
    from .sources import LESSON  # it reads parts through this module

    return LESSON


def _first_line(node: ast.stmt) -> int:
    """The line of a statement's first decorator, else its own."""
    marks: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(mark.lineno for mark in marks)])


def _line(unit: _Unit) -> int:
    return unit.nodes[0].lineno


def _line_of_name(unit: _Unit, name: str) -> int:
    for node in unit.nodes:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and inner.id == name:
                return inner.lineno
    return _line(unit)


def says_nothing(node: ast.stmt) -> bool:
    """Whether a run does without a statement: a text, `pass`, a bare annotation, and what runs as a program alone."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__") and not node.orelse
    return isinstance(node, ast.Pass)


def effect(node: ast.stmt) -> tuple[int, str, str] | None:
    """Why a module-level statement cannot be given to the parts that need it: its line, the reason and a fix."""
    moved = "move it into the functions that need it"
    if isinstance(node, ast.Import | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Pass | ast.Raise):
        return None
    if isinstance(node, ast.ImportFrom):
        if node.level:
            return (
                node.lineno,
                "a relative import needs a package",
                "import by the full name, or write it into the file",
            )
        if any(alias.name == "*" for alias in node.names):
            return node.lineno, f"from {node.module} import * hides what is used", "import the names that are used"
        return None
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(_is_plain(target) for target in targets):
            return None
        return node.lineno, f"{_cut(ast.unparse(targets[0]))} is changed by an import of the file", moved
    if isinstance(node, ast.If | ast.Try):
        blocks = [node.body, node.orelse]
        if isinstance(node, ast.Try):
            blocks += [node.finalbody, *(handler.body for handler in node.handlers)]
        inner = (effect(each) for block in blocks for each in block if not says_nothing(each))
        return next((refusal for refusal in inner if refusal is not None), None)
    if isinstance(node, ast.AugAssign):
        return node.lineno, f"{_cut(ast.unparse(node.target))} is changed after it was made", "bind it once"
    first = ast.unparse(node).partition("\n")[0]
    return node.lineno, f"{_cut(first)} has an effect of its own when the file is imported", moved


def _is_plain(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(_is_plain(each) for each in target.elts)
    return isinstance(target, ast.Name)


def _imports_alone(unit: _Unit, name: str) -> bool:
    """Whether a unit binds the name by `import name.part` alone, which may stand several times."""
    node = unit.lone
    return isinstance(node, ast.Import) and all(
        alias.asname is None for alias in node.names if alias.name.partition(".")[0] == name
    )


def _is_future(unit: _Unit) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in unit.nodes)


def _is_star(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)


def _touched(nodes: Iterable[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """What statements may change, other than by binding a name: line, the name at its root, and the statement. They do
    by `a.b = ...`, `a[0] = ...`, `a += ...`, `del a.b`, and by a call for its effect alone, `a.append(...)`."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        changed: list[ast.expr] = []
        if isinstance(node, ast.Assign | ast.Delete):
            changed = [target for target in node.targets if not isinstance(target, ast.Name)]
        elif isinstance(node, ast.AugAssign):
            changed = [node.target]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            changed = [node.value.func] if isinstance(node.value.func, ast.Attribute) else []
        for target in changed:
            root: ast.expr = target
            while isinstance(root, ast.Attribute | ast.Subscript | ast.Call):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name):
                yield target.lineno, root.id, ast.unparse(node).partition("\n")[0]


def imported(nodes: Iterable[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Top-level names of the modules that are imported anywhere, each with its line."""
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno


def _marks_rung(mark: ast.expr, of_aisp: Iterable[str]) -> bool:
    """Whether a decorator is `@aisp.rung`, called or not, or the name that was imported for it."""
    if isinstance(mark, ast.Call):
        mark = mark.func
    if isinstance(mark, ast.Attribute):
        return mark.attr == "rung" and isinstance(mark.value, ast.Name) and mark.value.id == "aisp"
    return isinstance(mark, ast.Name) and mark.id in of_aisp


def _entry_name(node: ast.stmt | None) -> str:
    """The one name that an assignment binds, else ""."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _entry_of(node: ast.stmt | None) -> str:
    """The name of what can be called: a function, or what an assignment like `optimized = torch.compile(f)` makes."""
    if isinstance(node, ast.FunctionDef):
        return node.name
    callables = (ast.Call, ast.Lambda, ast.Name, ast.Attribute)
    return _entry_name(node) if isinstance(getattr(node, "value", None), callables) else ""


def _is_rung(name: str) -> bool:
    role = Role.of(name)
    return role is not None and (name != role.value or role not in (Role.PEER, Role.WRONG))


def _value(node: ast.expr, depth: int = 0) -> Any:
    """What a literal stands for: text, numbers and arithmetic of numbers, True, False, lists and dictionaries of these.

    Raises ValueError or GrammarError for all else.
    """
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bool | int | float):
        return node.value
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return evaluate(ast.unparse(node), {})
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(each, depth + 1) for each in node.elts]
    if isinstance(node, ast.Dict):
        table: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise ValueError("a key is no text")
            table[key.value] = _value(value, depth + 1)
        return table
    raise ValueError("no literal")


def for_host(content: Mapping[str, Any], free: Collection[str] | None = None) -> dict[str, int] | None:
    """Axes of the case that runs without a GPU: the longest axis of the largest tensor is halved until no tensor has
    more than HOST_ELEMENTS elements. None where the tensors cannot be read, or the axes that are `free` to be halved
    (all, unless they are given) are not enough."""
    axes = dict(content["axes"])
    try:
        specs = [parse_tensor(name, line) for name, line in content["inputs"].items()]
        specs += [parse_tensor(name, line, output=True) for name, line in content["outputs"].items()]
        while True:
            sizes = [(_elements(spec, axes), spec) for spec in specs if spec.shaped]
            elements, largest = max(sizes, key=lambda pair: pair[0])
            if elements <= HOST_ELEMENTS:
                return axes
            able = set[str]().union(*map(names, largest.dims)).intersection(axes if free is None else free)
            longest = max(sorted(able), key=lambda name: axes[name], default="")
            if not longest or axes[longest] < 2:
                return None
            axes[longest] //= 2
    except (GrammarError, TypeError, KeyError, ValueError):  # reported when the front matter is read
        return None


def _elements(spec: TensorSpec, axes: Mapping[str, int]) -> int:
    return math.prod(shape(spec, axes))


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
