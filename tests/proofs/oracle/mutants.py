"""Small slips in a source, by rule: each rule finds its places in the syntax tree and says what stands there instead.

Deterministic: which place of several a rule takes follows from the target's id, which rules a target gets from its
place in the list. `SURVIVORS` says of every mutant that the oracle lets live why it does.
"""

from __future__ import annotations

import ast
import enum
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

EACH = 5  # mutants of one operator

Rule = Callable[[ast.expr], str | None]


@dataclass(frozen=True)
class Mutant:
    """One slip: `old` at `line` (1-based) has become `new`."""

    rule: str
    line: int
    old: str
    new: str
    source: str
    before: str  # the whole line
    after: str

    @property
    def name(self) -> str:
        """Which stays the same when lines above it change."""
        return f"{self.rule}: {self.old} -> {self.new}"


def bound_loosened(node: ast.expr) -> str | None:
    """i < n becomes i <= n."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt) and _size(node):
        return f"{ast.unparse(node.left)} <= {ast.unparse(node.comparators[0])}"
    return None


def bound_tightened(node: ast.expr) -> str | None:
    """i < n becomes i < n - 1."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Lt) and _size(node):
        return f"{ast.unparse(node.left)} < {ast.unparse(node.comparators[0])} - 1"
    return None


def mask_removed(node: ast.expr) -> str | None:
    """One of two conditions is forgotten: a & b becomes a."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        # Without the other side's shape the store would not take the mask.
        return f"({_grouped(node.left)} & ({_grouped(node.right)} | True))"
    return None


def constant_changed(node: ast.expr) -> str | None:
    """A float, but for 0, is off by one hundredth."""
    if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value != 0.0:
        return repr(node.value * 1.01)
    return None


def loop_ends_early(node: ast.expr) -> str | None:
    """range(0, n, b) becomes range(0, n - 1, b): a last block of one element is skipped."""
    if _called(node) == "range" and len(_arguments(node)) == 3:
        first, stop, step = (ast.unparse(argument) for argument in _arguments(node))
        return f"range({first}, {stop} - 1, {step})"
    return None


def grid_rounded_down(node: ast.expr) -> str | None:
    """The last, unfilled program is forgotten."""
    if _called(node) == "triton.cdiv":
        whole, part = (ast.unparse(argument) for argument in _arguments(node))
        return f"max(1, {whole} // ({part}))"
    return None


def narrowed(node: ast.expr) -> str | None:
    """Digits are lost: an accumulator in fp16, or what was loaded in fp32 gone through fp16."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        narrow = ast.unparse(node).replace("tl.float32", "tl.float16")
        if node.func.attr == "to" and [ast.unparse(a) for a in node.args] == ["tl.float32"]:
            return f"{narrow}.to(tl.float32)"  # functions that know no fp16 would only raise
        if _called(node) in ("tl.zeros", "tl.full") and narrow != ast.unparse(node):
            return narrow
    return None


def offset_narrowed(node: ast.expr) -> str | None:
    """Offsets in 32 bits."""
    if isinstance(node, ast.Attribute) and ast.unparse(node) == "tl.int64":
        return "tl.int32"
    return None


def difference_swapped(node: ast.expr) -> str | None:
    """a - b becomes b - a."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        return f"({ast.unparse(node.right)} - {_grouped(node.left)})"
    return None


def branches_swapped(node: ast.expr) -> str | None:
    """tl.where(c, a, b) becomes tl.where(c, b, a)."""
    if _called(node) == "tl.where":
        condition, one, other = (ast.unparse(argument) for argument in _arguments(node))
        return f"tl.where({condition}, {other}, {one})"
    return None


def tie_moved(node: ast.expr) -> str | None:
    """Equality falls on the other side: > becomes >=, <= becomes <, < 0 becomes <= 0."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        signs: dict[type[ast.cmpop], str] = {ast.Gt: ">=", ast.LtE: "<"} | ({} if _size(node) else {ast.Lt: "<="})
        sign = signs.get(type(node.ops[0]))
        if sign:
            return f"{ast.unparse(node.left)} {sign} {ast.unparse(node.comparators[0])}"
    return None


def padding_changed(node: ast.expr) -> str | None:
    """What stands in for elements past the end: -inf becomes 0."""
    if _called(node) == "float" and ast.unparse(_arguments(node)[0]) == "'-inf'":
        return "0.0"
    return None


def place_shifted(node: ast.expr) -> str | None:
    """A block starts one element late."""
    if _called(node) == "tl.arange":
        return f"({ast.unparse(node)} + 1)"
    return None


def maximum_turned(node: ast.expr) -> str | None:
    """The least instead of the largest."""
    if _called(node) in ("tl.max", "tl.maximum"):
        return ast.unparse(node).replace("tl.max", "tl.min", 1)
    return None


RULES: tuple[Rule, ...] = (
    bound_loosened,
    narrowed,
    constant_changed,
    loop_ends_early,
    difference_swapped,
    bound_tightened,
    grid_rounded_down,
    branches_swapped,
    padding_changed,
    offset_narrowed,
    mask_removed,
    tie_moved,
    maximum_turned,
    place_shifted,
)


def mutants(source: str, target: str, index: int, count: int = EACH) -> list[Mutant]:
    """`count` slips of different rules where there are as many, the first rule being `index` times three further on.

    Raises:
        ValueError: fewer than `count` are possible.
    """
    tree = ast.parse(source)
    turn = (index * 3) % len(RULES)
    rules = [*RULES[turn:], *RULES[:turn]]
    able = {rule: places(tree, source, rule, target) for rule in rules}
    found: list[Mutant] = []
    while able and len(found) < count:
        for rule in list(able):
            if len(found) == count:
                break
            mutant = next(able[rule], None)
            if mutant is None:
                del able[rule]
            else:
                found.append(mutant)
    if len(found) < count:
        raise ValueError(f"{target}: {len(found)} slips are possible, not {count}; add a rule")
    return found


def places(tree: ast.Module, source: str, rule: Rule, target: str) -> Iterator[Mutant]:
    """A rule's mutants, from a place on that the target's id gives."""
    nodes = [n for f in tree.body if isinstance(f, (ast.FunctionDef, ast.ClassDef)) for n in _code(f)]
    able = [(node, new) for node in nodes if (new := rule(node)) is not None]
    if not able:
        return
    name = rule.__name__
    start = int(hashlib.sha256(f"{target} {name}".encode()).hexdigest(), 16) % len(able)
    for node, new in [*able[start:], *able[:start]]:
        changed = _replaced(source, node, new)
        try:
            same = ast.dump(ast.parse(changed)) == ast.dump(tree)
        except SyntaxError:
            continue
        if not same:
            line = node.lineno
            before, after = (text.splitlines()[line - 1].strip() for text in (source, changed))
            yield Mutant(name, line, ast.unparse(node), new, changed, before, after)


def _code(function: ast.AST) -> Iterator[ast.expr]:
    """Expressions of a function in the order of its text, without annotations and docstrings."""
    skipped = {id(n) for a in ast.walk(function) if isinstance(a, ast.arg) and a.annotation for n in ast.walk(a)}
    found = [n for n in ast.walk(function) if isinstance(n, ast.expr) and id(n) not in skipped]
    yield from sorted(found, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))


def _replaced(source: str, node: ast.expr, new: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + (node.end_col_offset or 0)
    raw = source.encode()
    return (raw[:start] + new.encode() + raw[end:]).decode()


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _arguments(node: ast.expr) -> list[ast.expr]:
    return node.args if isinstance(node, ast.Call) else []


def _size(node: ast.Compare) -> bool:
    """Whether what is compared with is a size: a capital name, or `count`."""
    right = node.comparators[0]
    return isinstance(right, ast.Name) and (right.id.isupper() or right.id == "count")


def _grouped(node: ast.expr) -> str:
    return f"({ast.unparse(node)})" if isinstance(node, (ast.BinOp, ast.Compare)) else ast.unparse(node)


class Fate(enum.StrEnum):
    """Why a mutant lives."""

    EQUIVALENT = "the same"  # no input tells it from its original
    TOLERANCE = "within tolerance"  # its error is less than what a good implementation may make
    HUGE = "huge only"  # sizes that a fuzz draws only on request
    MEMORY = "memory only"  # its values are right; what it reads or writes beside them is not
    BLIND = "blind spot"
    UNEXPLAINED = "unexplained"


_OFFSETS = "offsets end at 2**31 elements: the `huge` strategy alone comes there, and only on a GPU"
_ONE_MORE = (
    "reads and writes one element past the end, where a timed run has margins around its inputs; here the process "
    "dies of it at times"
)
_SAME_AT_ZERO = "at 0 both sides of the branch are 1"

SURVIVORS: dict[str, tuple[Fate, str]] = {
    "moves:embedding bound_loosened: tokens < T -> tokens <= T": (
        Fate.MEMORY,
        "copies one row past the last; here the process dies of it at times",
    ),
    "moves:embedding grid_rounded_down: triton.cdiv(D, BLOCK) -> max(1, D // (BLOCK))": (
        Fate.BLIND,
        "a second block of columns begins after 1024, and 30 cases drew no D of 1025 or 2049",
    ),
    "moves:embedding offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "moves:embedding mask_removed: there[:, None] & (cols < D)[None, :] -> "
    "(there[:, None] & ((cols < D)[None, :] | True))": (
        Fate.MEMORY,
        "each row is written over the next one's start, which the interpreter then writes right: on a GPU it is a race",
    ),
    "moves:rope mask_removed: (token < T) & (head < H) -> ((token < T) & ((head < H) | True))": (
        Fate.MEMORY,
        "heads past the last are written over the next token's, which then come right; on a GPU it is a race",
    ),
    "moves:rope offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "moves:transpose mask_removed: (cols < N)[:, None] & (rows < M)[None, :] -> "
    "((cols < N)[:, None] & ((rows < M)[None, :] | True))": (
        Fate.MEMORY,
        "each row is written over the next one's start, which the interpreter then writes right: on a GPU it is a race",
    ),
    "moves:transpose offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "pointwise:dropout tie_moved: (bits >> 32).to(tl.int64) < threshold -> (bits >> 32).to(tl.int64) <= threshold": (
        Fate.EQUIVALENT,
        "one hash of 2**32 falls on the other side: as good a choice at random as the original's",
    ),
    "pointwise:dropout bound_loosened: i < count -> i <= count": (Fate.MEMORY, _ONE_MORE),
    "pointwise:elu bound_loosened: i < count -> i <= count": (Fate.MEMORY, _ONE_MORE),
    "pointwise:elu constant_changed: 10.0 -> 10.1": (
        Fate.EQUIVALENT,
        "the last term of the series, at most 6e-10 of the sum: fp32 has no digit for a hundredth of it",
    ),
    "pointwise:layer_scale offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "pointwise:relu offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "pointwise:sigmoid offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "pointwise:sigmoid tie_moved: x < 0.0 -> x <= 0.0": (Fate.EQUIVALENT, _SAME_AT_ZERO),
    "pointwise:sigmoid bound_loosened: i < count -> i <= count": (Fate.MEMORY, _ONE_MORE),
    "pointwise:silu tie_moved: x < 0.0 -> x <= 0.0": (Fate.EQUIVALENT, _SAME_AT_ZERO),
    "pointwise:silu bound_loosened: i < count -> i <= count": (Fate.MEMORY, _ONE_MORE),
    "pointwise:tanh bound_loosened: i < count -> i <= count": (Fate.MEMORY, _ONE_MORE),
    "pointwise:tanh constant_changed: 1.0 -> 1.01": (
        Fate.TOLERANCE,
        "the sixth coefficient of the series, a hundredth off: at most 5e-7 of the value where fp32 may lose 4e-6",
    ),
    "products:matmul_bias_gelu offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "products:matmul_bias_gelu mask_removed: (k < K)[:, None] & (n < N)[None, :] -> "
    "((k < K)[:, None] & ((n < N)[None, :] | True))": (
        Fate.MEMORY,
        "reads columns past the last, whose sums are never stored",
    ),
    "rows:cross_entropy padding_changed: float('-inf') -> 0.0": (
        Fate.BLIND,
        "the maximum starts at 0, which harms only rows far below zero (the values `below`): 30 cases had none",
    ),
    "rows:cross_entropy offset_narrowed: tl.int64 -> tl.int32": (Fate.HUGE, _OFFSETS),
    "rows:cross_entropy mask_removed: there[:, None] & (cols < V)[None, :] -> "
    "(there[:, None] & ((cols < V)[None, :] | True))": (
        Fate.MEMORY,
        "each row is written over the next one's start, which then comes right; here the process dies of it at times",
    ),
    "rows:cumsum bound_loosened: rows < M -> rows <= M": (
        Fate.MEMORY,
        "sums one row past the last; here the process dies of it at times",
    ),
    "rows:topk offset_narrowed: tl.int64 -> tl.int32": (
        Fate.EQUIVALENT,
        "a place in a row of at most 2048 fits 32 bits, and the store widens it",
    ),
}
"""By target and Mutant.name: why nobody can see it, or what the oracle does not see."""
