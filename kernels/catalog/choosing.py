"""Which targets a word means: an id, a name that one target alone has, a chapter, a glob, or all."""

from __future__ import annotations

import enum
import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Problem

ALL = "all"
MOST_NAMED = 8
"""Ids that a message names at most."""
_GLOB_SIGNS = frozenset("*?[")


class Miss(enum.StrEnum):
    """Why a word means no target."""

    UNKNOWN = "unknown"  # there is none of that id or name
    AMBIGUOUS = "ambiguous"  # several fit
    BROKEN = "broken"  # it is there and does not load


class TargetError(LookupError):
    """A word that does not mean one target.

    Attributes:
        kind: why.
        near: ids that would work: those that come nearest, or all that an ambiguous word fits.
    """

    def __init__(self, text: str, kind: Miss, near: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.near = tuple(near)

    def __str__(self) -> str:
        return str(self.args[0])


def chapter_of(target_id: str) -> str:
    """The chapter's id: "ch07" of "ch07:transpose"."""
    return target_id.rpartition(":")[0]


def name_of(target_id: str) -> str:
    """The name without the chapter: "transpose" of "ch07:transpose"."""
    return target_id.rpartition(":")[2]


def is_path(word: str) -> bool:
    """Whether a word has the signs of a path, which no name has: `.`, `..`, a beginning of `./`, `../`, `/` or `~`, an
    end of `/` or `.py`."""
    return word in (".", "..") or word.startswith(("./", "../", "/", "~")) or word.endswith(("/", ".py"))


def is_group(word: str, ids: Sequence[str]) -> bool:
    """Whether `word` may mean several targets: all, a chapter or a glob, and no target's id."""
    return word not in ids and (
        word == ALL or not _GLOB_SIGNS.isdisjoint(word) or any(chapter_of(each) == word for each in ids)
    )


def meant(word: str, ids: Sequence[str]) -> list[str]:
    """The ids among `ids` that `word` means, in their order; more than one for a name that several have."""
    if word in ids:
        return [word]
    if word == ALL:
        return list(ids)
    in_chapter = [each for each in ids if chapter_of(each) == word]
    if in_chapter:
        return in_chapter
    if not _GLOB_SIGNS.isdisjoint(word):
        return [each for each in ids if fnmatch.fnmatchcase(each, word) or fnmatch.fnmatchcase(name_of(each), word)]
    return [each for each in ids if name_of(each) == word]


def some(word: str, ids: Sequence[str], broken: Mapping[str, Sequence[Problem]] | None = None) -> list[str]:
    """The ids that `word` means: those of a group, of "all" perhaps none, or the one as in `one`."""
    matches = meant(word, ids) if is_group(word, ids) else []
    return matches if matches or word == ALL else [one(word, ids, broken)]


def one(word: str, ids: Sequence[str], broken: Mapping[str, Sequence[Problem]] | None = None) -> str:
    """The one id of `ids` that `word` means, by id or by a name that no other has.

    Args:
        word: what a person typed.
        ids: targets that there are.
        broken: what keeps others from loading, by their id.

    Raises:
        TargetError: it means none, several, or one that does not load.
    """
    matches = meant(word, ids)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ambiguous(word, matches)
    stopped = meant(word, list(broken or ()))
    if broken and len(stopped) == 1:
        first, *more = broken[stopped[0]]
        others = f" ({len(more)} more)" if more else ""
        raise TargetError(f"{stopped[0]} does not load: {first}{others}", Miss.BROKEN)
    raise unknown(word, ids)


def ambiguous(word: str, matches: Sequence[str]) -> TargetError:
    """That `word` means several targets, with what each of them is called."""
    others = f" or {len(matches) - MOST_NAMED} more" if len(matches) > MOST_NAMED else ""
    return TargetError(
        f"{word!r} may be {', '.join(matches[:MOST_NAMED])}{others}; give one of them", Miss.AMBIGUOUS, matches
    )


def unknown(word: str, ids: Sequence[str]) -> TargetError:
    """That no target is meant by `word`, with the ids that come nearest."""
    import difflib  # only on the error path

    if not _GLOB_SIGNS.isdisjoint(word):
        return TargetError(f"no target fits {word!r}; `aisp list` shows all of them", Miss.UNKNOWN)
    inside = [each for each in ids if word and word in each]
    close = difflib.get_close_matches(word, ids, n=3, cutoff=0.4)
    by_name = difflib.get_close_matches(word, [name_of(each) for each in ids], n=3, cutoff=0.6)
    near = list(dict.fromkeys([*inside, *(each for each in ids if name_of(each) in by_name), *close]))[:3]
    hint = f"did you mean {' or '.join(near)}?" if near else "`aisp list` shows all of them"
    return TargetError(f"no target {word!r}; {hint}", Miss.UNKNOWN, near)
