"""Lessons as somebody may save or send them: shipped ones that were damaged, odd values under true keys, bombs.

The promises, for every input:
 * it is a FrontMatter, or problems that each say in text that can be sent what is wrong and what would work;
 * of a FrontMatter every case has shapes, operations and bytes;
 * the processor seconds and the memory are bounded, whatever the file announces.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any, cast

from aisp.kernels.catalog import frontmatter, grammar, loader, tensors
from aisp.kernels.catalog.model import Target
from tests.proofs.fuzz.tally import Fuzz, check

_PATH = Path("/lessons/lesson.md")
LESSONS = [path.read_bytes() for path in sorted(loader.shipped_root().glob("**/lesson.md"))]
_MATTER = re.compile(rb"\A\+\+\+\n(.*?)\n\+\+\+\n", re.DOTALL)
HEADS = [found.group(1) for data in LESSONS if (found := _MATTER.match(data))]

_ODD = (
    *("", '""', "''", "0", "-1", "1e400", "-inf", "nan", "true", "[]", "{}", "[[]]", "[{}]", "{ a = 1 }", "2**9"),
    *("1" + "0" * 30, "1" + "0" * 400, "1" + "0" * 5000, "0x" + "f" * 20, "0x" + "f" * 6000, "0o7", "0b1", "1_000"),
    *("1979-05-27", "1979-05-27T07:32:00Z", "07:32:00", "2024-02-30", "9999-12-31T23:59:59.999999-23:59"),
    *('"""a\nb"""', "'''x'''", '"\\u0000"', '"\\U0010FFFF"', '"\\ud800"', '"\\q"', '"\x1b[2J"', '"\u202e"', '"é☕"'),
    *('"at line 999999"', '{ "at line 77777" = 1, "at line 77777" = 2 }', '{ "at line 1_0" = 1 }', "a.b.c", "["),
    *("[1, 2]", '["N"]', "{ N = 1 }", "{ M = -5 }", "{ N = [1, 2] }", "{ N = { multiple = 0 } }", "[0.0, 1e308]"),
    *('"float32 [M, N] normal"', '"made"', '"float32 []"', '"int64 [N] permutation"', '"bool [M] bernoulli(2)"'),
    *('"float32 [' + "2**127," * 60 + 'N] normal"', '"float32 [' + "9**38," * 60 + ']"', '"int8 [-1] ones"'),
    *("[1" + "0" * 400 + ", 2" + "0" * 400 + "]", "{ float32 = 1" + "0" * 400 + " }", "{ sm = 0x" + "f" * 5000 + " }"),
)
_TOKENS = (
    *("M", "N", "K", "0", "1", "2", "7.5", "1e308", "2**127", "9**9**9", "+", "-", "*", "/", "//", "%", "**", "(", ")"),
    *("min(", "max(", "ceil_div(", "log2(", ",", " ", ".", "__import__", "lambda", "\\n", "1or 2", "0x10", "1j", "ſ"),
)
_NUMBER = re.compile(rb"[0-9]+|\b[A-Z]\b")
_NUMBERS = (b"0", b"1", b"3", b"64", b"4096", b"281474976710656", b"7.5", b"1e-9", b"(M-N)", b"N", b"M", b"2**40")
_WORDS = (
    *frontmatter.KEYS,
    "sm",
    "gpus",
    "name",
    "timed",
    "summary",
    "supports",
    "as",
    "of",
    "keep",
    "seed",
    "on",
    "x",
)


def expression(chance: random.Random) -> str:
    """Tokens of the grammar, and some beside it, in any order; or nested ever deeper."""
    if chance.random() < 0.1:
        depth = chance.choice((3, 30, 60, 63, 64, 65, 100, 119))
        return chance.choice(("(" * depth + "M" + ")" * depth, "-" * depth + "M", "M" + "**M" * (depth // 2)))
    return "".join(chance.choice(_TOKENS) for _ in range(chance.randint(1, 12)))


def odd(chance: random.Random) -> str:
    """A value, mostly one that has no place where it stands."""
    if chance.random() < 0.4:
        text = expression(chance)
        return chance.choice((f'"{text}"', f'"float32 [{text}] normal"', f'"int32 [M] integers(0, {text})"'))
    return chance.choice(_ODD)


def damaged(head: bytes, chance: random.Random) -> bytes:
    """A head with lines dropped, doubled, swapped and given other keys or values, and bytes changed."""
    lines = head.split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 3))):
        place = chance.randrange(len(lines))
        key, equals, value = lines[place].partition(b"=")
        match chance.randrange(11):
            case 0:
                del lines[place : place + 1]
                lines = lines or [b""]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[place])
            case 2:
                other = chance.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
            case 3 | 4 if equals:
                lines[place] = key + b"= " + odd(chance).encode("utf-8", "surrogatepass")
            case 5 if equals:
                lines[place] = chance.choice(_WORDS).encode() + b" =" + value
            case 6:
                header = chance.choice(("[{}]", "[[{}]]", "[rungs.{}]", "[judged.{}]", "{} = 1", "[a.{}.b]"))
                lines.insert(place, header.format(chance.choice(_WORDS)).encode())
            case 7 | 8 | 9:  # most lessons are still lessons then
                lines[place] = _NUMBER.sub(lambda _: chance.choice(_NUMBERS), lines[place], count=chance.randint(1, 2))
            case _:
                line = bytearray(lines[place])
                for _ in range(chance.randint(1, 3)):
                    at = chance.randrange(len(line) + 1)
                    line[at : at + chance.randrange(3)] = chance.choice(
                        (
                            b"",
                            b'"',
                            b"'",
                            b"{",
                            b"}",
                            b"[",
                            b"]",
                            b"\\",
                            b"=",
                            b".",
                            b"\r",
                            b"\x00",
                            b"\xff",
                            b"+++",
                            b"9",
                        )
                    )
                lines[place] = bytes(line)
    return b"\n".join(lines)


def bomb(chance: random.Random) -> bytes:
    """Short enough for a lesson, and work or memory that grows with its square, or faster."""
    count = chance.choice((60, 1000, 4000))
    axes = ", ".join(f"A{n} = 1" for n in range(count))
    made = chance.choice(
        (
            ".".join(["a"] * count) + " = 1",
            "[" + ".".join(["a"] * count) + "]",
            "{ ".join(["a = "] * min(count, 900)),
            "a = " + "[" * count + "]" * count,
            f"axes = {{ {axes} }}\n" + "[[cases]]\n" * count,
            f"axes = {{ {axes} }}\n[fuzz]\naxes = {{ " + ", ".join(f"B{n} = [1]" for n in range(count)) + " }",
            "\n".join(f"unknown_{n} = {n}" for n in range(count)),
            "\n".join(f'[[cases]]\nname = "c{n}"' for n in range(count)),
            "[inputs]\n" + "\n".join(f'x{n} = "float32 [M, N] normal"' for n in range(count)),
            f"tolerance = {{ {', '.join(f't{n} = 1' for n in range(count))} }}",
            "[judged]\n" + "\n".join(f'y{n} = {{ as = "x" }}' for n in range(count)),
            "\n".join(f"[rungs.r{n}]\nsupports = {{ Z = [1] }}" for n in range(count)),
            'title = "' + "x" * 60 * count + '"',
            "x" * 60 * count + " = 1",
            '[fuzz]\ndtypes = ["' + '", "'.join(["float99"] * count) + '"]',
            'flops = "' + "(" * count + '"',
            'flops = "' + "M" * 60 * count + '"',
        )
    )
    return made.encode()


def make(chance: random.Random) -> bytes:
    """The bytes of one lesson.md."""
    way = chance.random()
    if way < 0.004:
        head = bomb(chance)
        return b"+++\n" + (head if chance.random() < 0.5 else chance.choice(HEADS) + b"\n" + head) + b"\n+++\n"
    if way < 0.05:
        noise = chance.randbytes(chance.randrange(60))
        return noise if chance.random() < 0.3 else b"+++\n" + noise + b"\n+++\n"
    head = damaged(chance.choice(HEADS), chance)
    if way < 0.15:
        fences = [
            chance.choice((b"+++", b"+++ \r", b"\xef\xbb\xbf+++", b"++", b"", b" +++", b"+++\t")) for _ in range(2)
        ]
        return fences[0] + b"\n" + head + chance.choice((b"\n", b"\r\n", b"\r")) + fences[1] + b"\n# A lesson\n"
    return b"+++\n" + head + b"\n+++\n\n# A lesson\n"


def judge(data: bytes) -> str:
    """The promises of the module."""
    # Without the cache: what is read twice would be read once.
    matter, problems = frontmatter.read.__wrapped__(_PATH, data)
    check(
        (matter is None) == bool(problems), f"{'no ' if matter is None else ''}front matter, {len(problems)} problems"
    )
    check(len(problems) <= frontmatter.MAX_PROBLEMS + 1, f"{len(problems)} problems")
    for problem in problems:
        check(bool(problem.message.strip() and problem.fix.strip()), f"a problem without words: {problem}")
        told = f"{problem.key} {problem.message} {problem.fix}"
        check(len(told) < 20_000, f"a problem of {len(told)} characters")
        told.encode()
    if matter is None:
        return "one problem" if len(problems) == 1 else "several problems"
    target = cast(Target, matter)  # it has what these ask for
    for case in matter.cases:
        for spec in (*matter.inputs, *matter.outputs):
            if not spec.made:
                check(all(size >= 0 for size in tensors.shape(spec, case.axes)), f"a size below 0 in {spec.name}")
        check(0 <= tensors.flops(target, case) < float("inf"), "operations below 0 or without end")
        check(tensors.bytes_moved(target, case) >= 0, "bytes below 0")
    return "a lesson"


def _forget() -> None:
    """Empty what the grammar remembers, so that an input's memory is its own."""
    cached: Any
    for cached in (grammar._parse, tensors._parse):
        cached.cache_clear()


# TOML becomes a table of Python objects: a key of one byte some 500 of them, and an error's texts come on top.
FUZZ: Fuzz[bytes] = Fuzz(make, judge, len, lambda size: 600 * size + (4 << 20))
