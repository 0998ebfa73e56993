"""Axes expressions: the arithmetic that front matter may contain, read by a whitelist and never eval'd.

    evaluate("2*M*N*K", {"M": 64, "N": 64, "K": 32})        -> 262144
    evaluate("ceil_div(L, 16)", {"L": 100})                 -> 7

What there is: integers, floats, names of axes, `+ - * / // % **`, parentheses, a sign in front, and the
functions `min`, `max`, `ceil_div` and `log2`. Every expression gives what Python would give. The length of
the text, the depth of nesting, and every intermediate result are bounded, so that no front matter can stall
or exhaust whoever lists it: `9**9**9` is refused before it is computed.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from keyword import iskeyword

from .parsing import parsed

MAX_LENGTH = 240  # characters of one expression
MAX_DEPTH = 64  # levels of nesting
MAX_BITS = 128  # of any integer on the way; 2**128 is far above any count of bytes or operations

Number = int | float
Node = tuple[str, object] | tuple[str, object, tuple["Node", ...]]


class GrammarError(ValueError):
    """An expression or tensor line that the grammar does not know.

    Attributes:
        message: what was given and why it was refused.
        fix: what would work.
    """

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(f"{message}; {fix}")
        self.message = message
        self.fix = fix


_OPERATORS: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
FUNCTIONS = ("min", "max", "ceil_div", "log2")
_WHAT_WORKS = "use numbers, names of axes, + - * / // % **, parentheses, min, max, ceil_div and log2"

# Only these characters may reach the parser, and no number may run into a name: what Python would warn about
# (`1or 2`), complex numbers and hexadecimal are refused here.
_ALPHABET = re.compile(r"[A-Za-z0-9_.\s+\-*/%(),]*\Z")
_NUMBER_INTO_NAME = re.compile(r"(?<![A-Za-z0-9_])(?>[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9][0-9_]*)?)[A-Za-z_]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_PLAIN_INTEGER = re.compile(r"[1-9][0-9]{0,17}\Z|0\Z")


def is_axis_name(name: str) -> bool:
    """Whether `name` can stand for an axis: an ASCII identifier, neither a keyword nor a function here."""
    return bool(_PLAIN_NAME.match(name)) and not iskeyword(name) and name not in FUNCTIONS


def evaluate(expression: str, axes: Mapping[str, int]) -> int | float:
    """The value of `expression` where its names stand for `axes`.

    Raises:
        GrammarError: the text is not in the grammar, names an axis that `axes` lacks, divides by zero, or
        some
            result on the way is too large or not a real number.
    """
    return _value(_parse(expression), axes, expression)


def names(expression: str) -> frozenset[str]:
    """The axes that `expression` uses. Raises GrammarError where it is not in the grammar."""
    axes: set[str] = set()
    pending = [_parse(expression)]
    while pending:
        node = pending.pop()
        if node[0] == "name":
            axes.add(str(node[1]))
        elif len(node) == 3:
            pending.extend(node[2])
    return frozenset(axes)


@lru_cache(maxsize=4096)
def _parse(expression: str) -> Node:
    """The expression as a small tree of ("number", n), ("name", text) and (kind, operation, operands)."""
    text = expression.strip()
    if len(text) > MAX_LENGTH:
        raise GrammarError(
            f"the expression has {len(text)} characters",
            f"keep it within {MAX_LENGTH}, or name a part as an axis",
        )
    if _PLAIN_NAME.match(text) and is_axis_name(text):
        return ("name", text)
    if _PLAIN_INTEGER.match(text):
        return ("number", int(text))
    if not text:
        raise GrammarError("the expression is empty", _WHAT_WORKS)
    if not _ALPHABET.match(text) or _NUMBER_INTO_NAME.search(text):
        raise GrammarError(f"{_quoted(text)} is not in the grammar", _WHAT_WORKS)
    try:
        # Line breaks and tabs mean nothing here, but they would to Python's parser.
        tree = parsed(" ".join(text.split()), "eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise GrammarError(f"{_quoted(text)} is not an expression", _WHAT_WORKS) from None
    assert isinstance(tree, ast.Expression)
    return _lower(tree.body, text, 0)


def _lower(node: ast.expr, text: str, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise GrammarError(f"{_quoted(text)} is nested too deeply", f"keep it within {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=value) if type(value) is int or type(value) is float:
            return ("number", _bounded(value, text))
        case ast.Name(id=name):
            return ("name", name)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return ("sign", isinstance(sign, ast.USub), (_lower(operand, text, depth + 1),))
        case ast.BinOp(left=left, op=operation, right=right):
            operands = (_lower(left, text, depth + 1), _lower(right, text, depth + 1))
            if isinstance(operation, ast.Pow):
                return ("power", None, operands)
            if type(operation) in _OPERATORS:
                return ("binary", _OPERATORS[type(operation)], operands)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            wanted = {"ceil_div": "two arguments", "log2": "one argument"}.get(name, "two arguments or more")
            fits = {"ceil_div": len(arguments) == 2, "log2": len(arguments) == 1}.get(name, len(arguments) >= 2)
            if not fits:
                raise GrammarError(f"{name}() was given {len(arguments)} arguments", f"it takes {wanted}")
            return ("call", name, tuple(_lower(argument, text, depth + 1) for argument in arguments))
    raise GrammarError(f"{_quoted(text)} is not in the grammar", _WHAT_WORKS)


def _value(node: Node, axes: Mapping[str, int], text: str) -> Number:
    kind, payload = node[0], node[1]
    if kind == "number":
        assert isinstance(payload, int | float)
        return payload
    if kind == "name":
        try:
            return axes[str(payload)]
        except KeyError:
            raise _no_axis(str(payload), axes) from None
    assert len(node) == 3
    operands = [_value(operand, axes, text) for operand in node[2]]
    try:
        if kind == "sign":
            result = -operands[0] if payload else operands[0]
        elif kind == "power":
            result = _power(operands[0], operands[1], text)
        elif kind == "binary":
            assert callable(payload)
            result = payload(operands[0], operands[1])
        elif payload == "ceil_div":
            result = -(-operands[0] // operands[1])
        elif payload == "log2":
            result = math.log2(operands[0])
        else:
            result = min(operands) if payload == "min" else max(operands)
    except ZeroDivisionError:
        shown = ", ".join(f"{name}={axes[name]}" for name in sorted(names(text)) if name in axes)
        raise GrammarError(
            f"{_quoted(text)} divides by zero" + (f" where {shown}" if shown else ""),
            "guard it with max(1, ...)",
        ) from None
    except GrammarError:  # a ValueError too, and already says what is wrong
        raise
    except (OverflowError, ValueError):
        raise GrammarError(f"{_quoted(text)} has no real value", "check its powers and logarithms") from None
    return _bounded(result, text)


def _power(base: Number, exponent: Number, text: str) -> Number:
    """base ** exponent, refused before it is computed where the result would be large."""
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        # An integer of n bits to the power e has at least (n - 1) * e bits.
        if abs(base) > 1 and (base.bit_length() - 1) * exponent > MAX_BITS:
            raise _too_large(text)
        return int(base**exponent)
    if base < 0 and not float(exponent).is_integer():
        raise ValueError("a root of a negative number is not real")
    result: Number = base**exponent
    return result


def _bounded(value: Number, text: str) -> Number:
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise _too_large(text)
    elif not math.isfinite(value):
        raise _too_large(text)
    return value


def _too_large(text: str) -> GrammarError:
    return GrammarError(f"{_quoted(text)} is too large", f"keep every result within {MAX_BITS} bits")


def _no_axis(name: str, axes: Mapping[str, int]) -> GrammarError:
    return GrammarError(f"the axis {name!r} is used but not defined", suggest(name, axes, "define it in [axes]"))


def suggest(word: str, terms: object, otherwise: str) -> str:
    """The fix for a name that is not `known`: the nearest one, else `otherwise`, with what there is."""
    import difflib  # only on the error path

    choices = [str(name) for name in terms] if isinstance(terms, Mapping | tuple | list) else []
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if not near:  # capitals are part of an axis' name, and easily mistaken
        near = [choice for choice in choices if choice.lower() == word.lower()]
    if near:
        return f"did you mean {near[0]!r}?"
    return f"{otherwise} (there is: {', '.join(choices)})" if choices else otherwise


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
