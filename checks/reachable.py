"""Which parts of a rung's source can run when the worker imports it and calls it: read, never executed.

A function counts as reached where reached code mentions its name: as a name, an attribute, an import or a word of a
text. So do functions that others call by their form: decorated ones, dunder methods, methods of classes with bases.
Where reached code can find a function without naming it (getattr, globals, eval ...), all functions count as reached.
`if __name__ == "__main__"`, `if TYPE_CHECKING` and `if False` are not reached, unless the file may start itself anew.

Code that is called unreached here could run by native code, or by a way of looking things up that is missing below. An
import that happens is heard in any case (checks.evaluation.Reach).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

ENTRIES = frozenset({"run", "prepare"})  # what a worker asks a module for
# By these, code finds a function whose name it does not say. Those of the first line are builtins: as attributes
# (torch.compile, model.eval) the words mean something else.
BUILTINS = frozenset(
    {"getattr", "setattr", "globals", "locals", "vars", "dir", "eval", "exec", "compile", "__import__"}
)
LOOKS_UP = frozenset(
    {
        *("attrgetter", "methodcaller", "resolve_name", "locate", "getmembers", "inspect", "modules", "import_module"),
        *(
            "gc",
            "pickle",
            "dill",
            "marshal",
            "ctypes",
            "cffi",
            "types",
            "builtins",
            "__builtins__",
            "__dict__",
            "__code__",
        ),
        *("__globals__", "__getattribute__", "__closure__", "f_globals", "f_locals", "__wrapped__", "__module__"),
        *("settrace", "setprofile"),
    }
)
# By these, a file is run by itself.
STARTS_ANEW = frozenset(
    {
        *(
            "__file__",
            "runpy",
            "subprocess",
            "multiprocessing",
            "ProcessPoolExecutor",
            "system",
            "popen",
            "Popen",
            "pty",
        ),
        *("posix_spawn", "posix_spawnp", "execv", "execve", "execvp", "execl", "execlp", "spawnv", "spawnl", "fork"),
    }
)
_WORD = re.compile(r"\w+")


def reached(files: Mapping[str, ast.AST]) -> dict[str, list[ast.AST]]:
    """Per file the nodes that can run, given all modules of the rung: names of one may call functions of another."""
    read = {name: _File(tree) for name, tree in files.items()}
    while True:
        mentions = frozenset[str]().union(*(file.mentions for file in read.values()))
        everything = bool(mentions & LOOKS_UP) or any(file.bare & BUILTINS for file in read.values())
        names = ENTRIES.union(mentions, *(file.words for file in read.values()))
        anew = bool(mentions & STARTS_ANEW)
        if not any(file.grow(names, everything=everything, anew=anew) for file in read.values()):
            return {name: file.nodes for name, file in read.items()}


class _File:
    """One module, as far as it is known to run.

    Attributes:
        nodes: what runs.
        mentions: names, attributes and imports in it.
        bare: the names alone.
        words: of its texts, those of its documentation left out.
    """

    def __init__(self, tree: ast.AST) -> None:
        self.nodes: list[ast.AST] = []
        self.mentions: set[str] = set()
        self.bare: set[str] = set()
        self.words: set[str] = set()
        self._waiting: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]] = []  # and whether its form calls it
        self._blocks: list[tuple[ast.stmt, bool]] = []
        self._constants = {word for word in ("__name__", "TYPE_CHECKING") if not _gives(tree, word)}
        self._enter(tree)

    def grow(self, names: frozenset[str], *, everything: bool, anew: bool) -> bool:
        """Take in what these names reach; whether there was any."""
        waiting, self._waiting = self._waiting, []
        entered: list[tuple[ast.stmt, bool]] = []
        for function, form in waiting:
            if everything or form or function.name in names:
                entered += [(statement, False) for statement in function.body]
            else:
                self._waiting.append((function, form))
        if everything or anew:
            entered, self._blocks = entered + self._blocks, []
        for statement, form in entered:
            self._enter(statement, form)
        return bool(entered)

    def _enter(self, node: ast.AST, form: bool = False) -> None:
        """A node that runs, and what runs with it. `form`: functions right in here are called by their form."""
        self.nodes.append(node)
        self._name(node)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # documentation
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            dunder = node.name.startswith("__") and node.name.endswith("__")
            self._waiting.append((node, form or dunder or bool(node.decorator_list)))
            for part in (*node.decorator_list, node.args, *([node.returns] if node.returns else [])):
                self._enter(part)
            return
        if isinstance(node, ast.ClassDef):
            form = bool(node.bases or node.keywords or node.decorator_list)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.If) and self._never(node.test):
            children = [node.test, *node.orelse]
            self._blocks += [(statement, form) for statement in node.body]
        for child in children:
            self._enter(child, form)

    def _name(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self.bare.add(node.id)
            self.mentions.add(node.id)
        elif isinstance(node, ast.Attribute):
            self.mentions.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)):
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            self.words.update(_WORD.findall(text))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for name in (getattr(node, "module", None) or "", *(alias.name for alias in node.names)):
                self.mentions.update(name.split("."))

    def _never(self, test: ast.expr) -> bool:
        if isinstance(test, ast.Constant):
            return not test.value
        if isinstance(test, ast.Name):
            return test.id == "TYPE_CHECKING" and test.id in self._constants
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            sides = (test.left, test.comparators[0])
            named = "__name__" in self._constants and any(isinstance(s, ast.Name) and s.id == "__name__" for s in sides)
            return named and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)
        return False


def _gives(tree: ast.AST, word: str) -> bool:
    """Whether a file gives a name a value, other than by importing it from typing."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            named = node.id if isinstance(node, ast.Name) else node.attr
            binds = named == word and not isinstance(node.ctx, ast.Load)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            typing = getattr(node, "module", "") == "typing"
            binds = any(
                (alias.asname or alias.name) == word and not (typing and alias.name == word) for alias in node.names
            )
        elif isinstance(node, ast.arg):
            binds = node.arg == word
        else:
            binds = not isinstance(node, ast.alias) and getattr(node, "name", None) == word
        if binds:
            return True
    return False
