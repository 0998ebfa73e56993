"""The tests that a change may break: `python -m tests.affected [REVISION]` prints them, a path a line, for pytest.

A test is affected when it was changed itself or names a changed module in an import. What it reaches by others is left
to `make test`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("checks", "engine", "kernels", "store", "tui")


def changed(since: str) -> list[str]:
    """Files that differ from a revision, and those that git does not know yet; paths from the root of the checkout."""
    asked = (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"])
    return [
        line
        for words in asked
        for line in subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]


def module_of(path: str) -> str:
    """The dotted name of a product file or of a file of tests; "" for anything else."""
    parts = Path(path).with_suffix("").parts
    if not path.endswith(".py") or not parts:
        return ""
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    dotted = ".".join(parts)
    return f"aisp.{dotted}" if parts and parts[0] in ROOMS else dotted


def imported(source: str) -> set[str]:
    """Names that a source imports, absolute ones: modules, and what is taken out of them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def affected(paths: Iterable[str]) -> list[str]:
    """Test files, sorted, as paths from the root of the checkout."""
    paths = list(paths)
    modules = set(filter(None, map(module_of, paths)))
    found = {path for path in paths if Path(path).name.startswith("test_") and (ROOT / path).exists()}
    for test in (ROOT / "tests").rglob("test_*.py"):
        if modules & imported(test.read_text("utf-8")):
            found.add(str(test.relative_to(ROOT)))
    return sorted(found)


if __name__ == "__main__":
    print("\n".join(affected(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))))
