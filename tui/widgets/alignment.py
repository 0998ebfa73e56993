"""Which line of one file stands beside which line of another. Plain Python, no screen.

Long files are cut at lines that occur once in both (the patience method: the longest sequence of such lines
that keeps its order), the gaps between are compared exactly. 3,000 lines take some ten milliseconds, where
difflib alone needs seconds as soon as blank lines and braces repeat. Inside a changed block the lines that
resemble each other are put side by side.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

# Left lines times right lines up to which difflib compares exactly, and up to which a changed block is
# searched for resembling lines. Both are quadratic at least.
_EXACT_PRODUCT = 10_000
_PAIRING_PRODUCT = 4_096
# Edits up to which a long stretch without a single unique line is compared exactly; work grows with the
# square.
_MOST_EDITS = 500
# Share of words in common from which two lines count as two versions of one.
RESEMBLING = 0.4
# Words in a line from which only the common beginning and end are found.
_LONG_LINE_WORDS = 400

_WORD = re.compile(r"\w+|[^\w\s]")
_PIECE = re.compile(r"\w+|\s+|.")


class Row(NamedTuple):
    """A line beside a line: numbers from 0, -1 for none."""

    left: int
    right: int
    equal: bool
    alike: bool  # two versions of one line, so that marking what changed inside helps


class Block(NamedTuple):
    """`size` equal lines from `left` and from `right` on."""

    left: int
    right: int
    size: int


def split_lines(text: str) -> list[str]:
    """The lines of `text`, ended by LF or CR LF; a newline at the end does not start another."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def matching_blocks(left: Sequence[str], right: Sequence[str]) -> list[Block]:
    """Blocks of equal lines, in order, none overlapping another on either side."""
    numbers: dict[str, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in left]
    b = [numbers.setdefault(line, len(numbers)) for line in right]
    found: list[Block] = []
    todo = [(0, len(a), 0, len(b))]
    while todo:
        a_low, a_high, b_low, b_high = todo.pop()
        start = a_low
        while a_low < a_high and b_low < b_high and a[a_low] == b[b_low]:
            a_low += 1
            b_low += 1
        if a_low > start:
            found.append(Block(start, b_low - (a_low - start), a_low - start))
        end = a_high
        while a_low < a_high and b_low < b_high and a[a_high - 1] == b[b_high - 1]:
            a_high -= 1
            b_high -= 1
        if a_high < end:
            found.append(Block(a_high, b_high, end - a_high))
        if a_low == a_high or b_low == b_high:
            continue
        anchors = _anchors(a, a_low, a_high, b, b_low, b_high)
        if anchors:
            for i, j in anchors:
                todo.append((a_low, i, b_low, j))
                found.append(Block(i, j, 1))
                a_low, b_low = i + 1, j + 1
            todo.append((a_low, a_high, b_low, b_high))
            continue
        if (a_high - a_low) * (b_high - b_low) > _EXACT_PRODUCT:
            few = _few_edits(a[a_low:a_high], b[b_low:b_high])
            if few is not None:
                found += [Block(a_low + i, b_low + j, 1) for i, j in few]
                continue
        # Popular lines are left out only where keeping them would take seconds.
        product = (a_high - a_low) * (b_high - b_low)
        matcher = SequenceMatcher(None, a[a_low:a_high], b[b_low:b_high], autojunk=product > _EXACT_PRODUCT)
        found += [Block(a_low + i, b_low + j, n) for i, j, n in matcher.get_matching_blocks() if n]
    return _joined(sorted(found))


def _anchors(a: list[int], a_low: int, a_high: int, b: list[int], b_low: int, b_high: int) -> list[tuple[int, int]]:
    """Lines that stand once on both sides, as the longest sequence in the same order on both.

    A big range without any takes lines that stand equally often on both sides, the n-th with the n-th.
    """
    count_a, count_b = Counter(a[a_low:a_high]), Counter(b[b_low:b_high])
    common = {line for line, count in count_a.items() if count == 1 and count_b.get(line) == 1}
    if common:
        where = {b[j]: j for j in range(b_low, b_high) if b[j] in common}
        pairs = [(i, where[a[i]]) for i in range(a_low, a_high) if a[i] in common]
        return _longest_ascending(pairs)
    if (a_high - a_low) * (b_high - b_low) <= _EXACT_PRODUCT:
        return []
    common = {line for line, count in count_a.items() if count_b.get(line) == count}
    places: dict[int, list[int]] = {}
    for j in range(b_high - 1, b_low - 1, -1):
        if b[j] in common:
            places.setdefault(b[j], []).append(j)
    return _longest_ascending([(i, places[a[i]].pop()) for i in range(a_low, a_high) if a[i] in common])


def _few_edits(a: list[int], b: list[int]) -> list[tuple[int, int]] | None:
    """Pairs of equal elements along the shortest way of deletions and insertions from `a` to `b`.

    None if that way is longer than `_MOST_EDITS`.

    Myers' greedy method (E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986): after d
    edits the farthest point reached on every diagonal k = i - j.
    """
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(_MOST_EDITS, len(a) + len(b)) + 1):
        trail.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            i = reach[k + 1] if down else reach[k - 1] + 1
            j = i - k
            while i < len(a) and j < len(b) and a[i] == b[j]:
                i, j = i + 1, j + 1
            reach[k] = i
            if i >= len(a) and j >= len(b):
                return _walked_back(trail, len(a), len(b))
    return None


def _walked_back(trail: list[dict[int, int]], i: int, j: int) -> list[tuple[int, int]]:
    """The equal pairs on the way that `trail` recorded, in order."""
    pairs = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], i - j
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        before_k = k + 1 if down else k - 1
        before_i = reach[before_k] if edits else 0
        before_j = before_i - before_k if edits else 0
        while i > before_i and j > before_j:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        i, j = before_i, before_j
    return pairs[::-1]


def _longest_ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest subsequence of `pairs`, ascending in the first, that also ascends in the second."""
    tails: list[int] = []  # smallest second element that ends a sequence of length index + 1
    at: list[int] = []  # which pair that is
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(at[length - 1] if length else -1)
        if length == len(tails):
            tails.append(j)
            at.append(number)
        else:
            tails[length] = j
            at[length] = number
    chosen = []
    number = at[-1] if at else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _joined(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last and last.left + last.size == block.left and last.right + last.size == block.right:
            joined[-1] = Block(last.left, last.right, last.size + block.size)
        else:
            joined.append(block)
    return joined


def align(left: Sequence[str], right: Sequence[str]) -> list[Row]:
    """Every line of both files exactly once, in order, equal and resembling lines in one row."""
    rows: list[Row] = []
    i = j = 0
    for block in (*matching_blocks(left, right), Block(len(left), len(right), 0)):
        rows += _pair_up(left, i, block.left, right, j, block.right)
        rows += [Row(block.left + n, block.right + n, True, False) for n in range(block.size)]
        i, j = block.left + block.size, block.right + block.size
    return rows


def _pair_up(left: Sequence[str], a_low: int, a_high: int, right: Sequence[str], b_low: int, b_high: int) -> list[Row]:
    """The rows of one changed block: resembling lines side by side, what is left over filled in between."""
    rows: list[Row] = []
    i, j = a_low, b_low
    for m, n in (*_resembling(left, a_low, a_high, right, b_low, b_high), (a_high, b_high)):
        while i < m or j < n:
            rows.append(Row(i if i < m else -1, j if j < n else -1, False, False))
            i, j = i + (i < m), j + (j < n)
        if m < a_high and n < b_high:
            rows.append(Row(m, n, False, True))
            i, j = m + 1, n + 1
    return rows


def _resembling(
    left: Sequence[str], a_low: int, a_high: int, right: Sequence[str], b_low: int, b_high: int
) -> list[tuple[int, int]]:
    """The pairs of resembling lines, in order, whose resemblances have the largest sum."""
    count_a, count_b = a_high - a_low, b_high - b_low
    if not count_a or not count_b:
        return []
    words_a = [_words(left[i]) for i in range(a_low, a_high)]
    words_b = [_words(right[j]) for j in range(b_low, b_high)]
    if count_a * count_b > _PAIRING_PRODUCT:
        return [
            (a_low + n, b_low + n)
            for n, (one, other) in enumerate(zip(words_a, words_b, strict=False))
            if _resemblance(one, other) >= RESEMBLING
        ]
    best = [[0.0] * (count_b + 1) for _ in range(count_a + 1)]
    value = [[_resemblance(one, other) for other in words_b] for one in words_a]
    for i in range(count_a - 1, -1, -1):
        for j in range(count_b - 1, -1, -1):
            with_pair = best[i + 1][j + 1] + value[i][j] if value[i][j] >= RESEMBLING else 0.0
            best[i][j] = max(with_pair, best[i + 1][j], best[i][j + 1])
    pairs = []
    i = j = 0
    while i < count_a and j < count_b:
        if value[i][j] >= RESEMBLING and best[i][j] == best[i + 1][j + 1] + value[i][j]:
            pairs.append((a_low + i, b_low + j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _words(line: str) -> frozenset[str]:
    return frozenset(_WORD.findall(line[:2000]))


def _resemblance(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of words in common, 0 to 1 (Dice's coefficient)."""
    total = len(one) + len(other)
    return 2 * len(one & other) / total if total else 0.0


def changed_parts(left: str, right: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where two versions of a line differ, in whole words: ranges of characters (from, to) on each side."""
    a, b = _PIECE.findall(left), _PIECE.findall(right)
    if len(a) + len(b) > 2 * _LONG_LINE_WORDS:
        start = 0
        while start < min(len(left), len(right)) and left[start] == right[start]:
            start += 1
        end = 0
        while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
            end += 1
        return [(start, len(left) - end)], [(start, len(right) - end)]
    ends_a, ends_b = _ends(a), _ends(b)
    marks_a: list[tuple[int, int]] = []
    marks_b: list[tuple[int, int]] = []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if i1 < i2:
            marks_a.append((ends_a[i1], ends_a[i2]))
        if j1 < j2:
            marks_b.append((ends_b[j1], ends_b[j2]))
    return marks_a, marks_b


def _ends(pieces: list[str]) -> list[int]:
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return ends


def hunks_of(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Stretches of rows that are not equal: (first, one behind the last)."""
    hunks: list[tuple[int, int]] = []
    start = -1
    for number, row in enumerate(rows):
        if row.equal:
            if start >= 0:
                hunks.append((start, number))
            start = -1
        elif start < 0:
            start = number
    if start >= 0:
        hunks.append((start, len(rows)))
    return hunks
