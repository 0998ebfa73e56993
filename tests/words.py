"""Counts private words: `python -m tests.words [--tighten]`.

Names of variables and parameters that are participles say nothing of what they hold; docstrings begin with a verb or a
noun; and each term of docs/glossary.toml names words that are not used for it. All are counted here and held by
tests/test_words.py: tests/budgets.toml says how many of each still stand, and that number only falls.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomli_w

ROOT = Path(__file__).parent.parent
BUDGETS = ROOT / "tests" / "budgets.toml"
GLOSSARY = ROOT / "docs" / "glossary.toml"
ROOMS = ("checks", "engine", "kernels", "store", "tui")
NOT_OURS = ("checks/gallery/", "checks/corpus/", "kernels/ch", "kernels/labs/")  # cheats and lessons: not the product
NAMES = ("asked", "found", "given", "known", "said", "told")
BEGINNINGS = ("As ", "Of ", "The same ", "Those ")
DOCSTRING = "docstring that begins with no verb and no noun"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def sources() -> dict[str, ast.Module]:
    """Every module of the product, parsed, by its path."""
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    named = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: ast.parse(path.read_text()) for name, path in named.items() if not name.startswith(NOT_OURS)}


def rooms() -> dict[str, int]:
    """Lines of the product by room: two levels of folders, CUDA sources included."""
    lines: Counter[str] = Counter()
    for room in ROOMS:
        for path in (ROOT / room).rglob("*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in (".py", ".cu", ".cuh") and not name.startswith(NOT_OURS):
                lines["/".join(name.split("/")[:-1][:2])] += len(path.read_text().splitlines())
    return dict(sorted(lines.items()))


def _bound(function: ast.AST) -> set[str]:
    """Names that a function takes or assigns."""
    names = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def pages() -> list[str]:
    """The texts of README and docs."""
    docs = ROOT / "docs"
    return [page.read_text() for page in (ROOT / "README.md", *docs.glob("*.md"), *docs.glob("commands/*.md"))]


def terms() -> list[dict[str, Any]]:
    """The entries of the glossary."""
    entries: list[dict[str, Any]] = tomllib.loads(GLOSSARY.read_text())["term"]
    return entries


def counts(modules: Iterable[ast.Module], texts: Iterable[str]) -> Counter[str]:
    """How often each word stands where it should not; in modules also in strings, docstrings among them."""
    tally: Counter[str] = Counter()
    strings = list(texts)
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                tally.update(f"name {name}" for name in _bound(node) & set(NAMES))
            if isinstance(node, DEFINITIONS):
                tally[DOCSTRING] += (ast.get_docstring(node) or "").startswith(BEGINNINGS)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append(node.value)
    avoided = [word for entry in terms() for word in entry.get("never", ())]
    tally.update({f"text {word}": 0 for word in avoided})
    pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in avoided))
    for text in strings:
        tally.update(f"text {word}" for word in pattern.findall(" ".join(text.split())))
    return tally


def standing() -> dict[str, int]:
    """The counts of the whole product and its pages."""
    return dict(sorted(counts(sources().values(), pages()).items()))


def budgets() -> dict[str, Any]:
    """What is allowed: words, and lines by room with a reason."""
    return tomllib.loads(BUDGETS.read_text())


def tighten() -> None:
    """Bring each number down to what stands there now; none goes up."""
    allowed, lines, words = budgets(), rooms(), standing()
    for room, budget in allowed["rooms"].items():
        budget["lines"] = min(budget["lines"], -(-lines.get(room, 0) // 50) * 50)
    allowed["words"] = {word: min(allowed["words"].get(word, count), count) for word, count in words.items()}
    head = "".join(line for line in BUDGETS.read_text().splitlines(keepends=True) if line.startswith("#"))
    BUDGETS.write_text(f"{head}\n{tomli_w.dumps(allowed)}")


def main() -> None:
    """Print what stands and what is allowed, and tighten where that is asked for."""
    if "--tighten" in sys.argv[1:]:
        tighten()
    allowed = budgets()
    for word, count in standing().items():
        print(f"{count:6} of {allowed['words'].get(word, 0):6}  {word}")
    lines = rooms()
    for room, count in lines.items():
        print(f"{count:6} of {allowed['rooms'].get(room, {}).get('lines', 0):6}  {room}")
    print(f"{sum(lines.values()):6}  lines of the product")


if __name__ == "__main__":
    main()
