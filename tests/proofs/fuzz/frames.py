"""Bytes for the decoder of frames: noise, true messages that were damaged, lies about lengths, bombs.

The promises, for every input and however it is cut into pieces:
 * nothing but messages of the union and FrameError comes out, in the same order and at the same place;
 * what comes out can be sent again and arrives as itself;
 * no more is held than was sent, and reading allocates no more than a fixed factor of it;
 * of a sealed stream, what arrives is how the true one began.
"""

from __future__ import annotations

import enum
import random
import struct
import types
import typing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from aisp.engine.protocol import events, framing, jobs, reports, requests
from aisp.engine.protocol.framing import MAX_FRAME_BYTES, MAX_REQUEST_BYTES, Decoder, Encoder, FrameError, Opener
from tests.proofs.fuzz.tally import Fuzz, check
from tests.store.examples import RECORDS

UNIONS: dict[str, Any] = {
    "requests": requests.AnyRequest,
    "events": events.AnyEvent,
    "jobs": jobs.AnyJob,
    "reports": reports.AnyReport,
}
LIMITS = {"requests": MAX_REQUEST_BYTES}  # as the engine reads them
KEY = bytes(range(32))
_LENGTH = struct.Struct(">I")
_ENCODER = msgspec.msgpack.Encoder()


@dataclass(frozen=True)
class Stream:
    """What a peer sends: the direction it speaks, its bytes, and where they are cut."""

    union: str
    data: bytes
    cuts: tuple[int, ...]
    sealed: bool = False


def value_of(annotation: Any, chance: random.Random) -> Any:
    """A value of an annotated type."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return value_of(chance.choice([kind for kind in arguments if kind is not type(None)]), chance)
    if origin is list:
        return [value_of(arguments[0], chance) for _ in range(chance.randrange(3))]
    if origin is dict:
        return {f"key {n}": value_of(arguments[1], chance) for n in range(chance.randrange(3))}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return chance.choice(list(annotation))
    if annotation in RECORDS:  # which refuse what cannot be true
        return RECORDS[annotation]
    if annotation is Any:
        return chance.choice([None, True, 2.5, "text", [1, 2], {"a": [{}]}])
    if annotation is bool:
        return chance.random() < 0.5
    if annotation is int:
        return chance.choice([0, -1, 2**63 - 1, -(2**63), 17])
    if annotation is float:
        return chance.choice([0.0, -1.5, 1e300, 5e-324, float("inf"), float("nan")])
    if annotation is str:
        return chance.choice(["", "plain", "naïve ☕ 你好\n\t", "x" * 100])
    if annotation is bytes:
        return chance.choice([b"", b"\x00\xff\xfe", b"/home/caf\xe9"])
    if annotation is msgspec.Raw:
        return msgspec.Raw(_ENCODER.encode(value_of(Any, chance)))
    hints = typing.get_type_hints(annotation)
    return annotation(**{f.name: value_of(hints[f.name], chance) for f in msgspec.structs.fields(annotation)})


def _true_bodies() -> dict[str, list[bytes]]:
    """Some bodies of every message of every direction."""
    chance = random.Random(1)
    return {
        name: [_ENCODER.encode(value_of(kind, chance)) for kind in typing.get_args(union) for _ in range(4)]
        for name, union in UNIONS.items()
    }


TRUE = _true_bodies()
TAGS = [kind.__struct_config__.tag for union in UNIONS.values() for kind in typing.get_args(union)]
_SEALED = [value_of(kind, random.Random(2)) for kind in typing.get_args(reports.AnyReport)]
# Announced and never sent, never used, of no type, no UTF-8, times out of range.
_ODD = (
    *(b"\xc1", b"\x80", b"\x90", b"\xa0", b"\xc0", b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff"),
    *(b"\xc6\xff\xff\xff\xff", b"\xdb\x7f\xff\xff\xff", b"\xc9\xff\xff\xff\xff\xff", b"\xa2\xff\xfe"),
    *(b"\xd6\xff\xff\xff\xff\xff", b"\xd7\xff" + b"\xff" * 8, b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x05\x01"),
    *(b"\x81\x80\x01", b"\x81\x90\x01", b"\x81\xcb\x7f\xf8" + bytes(6) + b"\x01", b"\xcf" + b"\xff" * 8),
    b"\xa3\xed\xa0\x80",
)  # fmt: skip


def framed(body: bytes) -> bytes:
    """A frame with a true length."""
    return _LENGTH.pack(len(body)) + body


def plain(chance: random.Random, depth: int = 0) -> Any:
    """Any value that msgpack has."""
    match chance.randrange(8 if depth < 3 else 6):
        case 0:
            return chance.choice([None, True, False])
        case 1:
            return chance.choice([0, -1, 2**64 - 1, -(2**63), chance.randrange(1 << 16)])
        case 2:
            return chance.choice([0.0, -0.0, float("nan"), float("-inf"), 1e-320])
        case 3:
            return chance.choice(["", "\x1b[2J", "\u202e", "x" * chance.randrange(300), chance.choice(TAGS)])
        case 4:
            return chance.randbytes(chance.randrange(20))
        case 5:
            return chance.choice(["type", "seq", 1])
        case 6:
            return [plain(chance, depth + 1) for _ in range(chance.randrange(4))]
        case _:
            return {str(plain(chance, 3)): plain(chance, depth + 1) for _ in range(chance.randrange(4))}


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes put in, taken out, doubled or replaced by odd ones."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(made) + 1)
        match chance.randrange(5):
            case 0 if place < len(made):
                made[place] ^= 1 << chance.randrange(8)
            case 1:
                made[place:place] = chance.randbytes(chance.randint(1, 8))
            case 2:
                del made[place : place + chance.randint(1, 16)]
            case 3:
                made[place:place] = made[place : place + chance.randint(1, 64)]
            case _:
                odd = chance.choice(_ODD)
                made[place : place + chance.choice((0, 1, len(odd)))] = odd
    return bytes(made)


def bomb(chance: random.Random) -> bytes:
    """Short, and a lot of work or memory for whoever believes it."""
    count = chance.choice((10, 100, 1000, 20_000))
    head = b"\x82\xa4type" + _ENCODER.encode(chance.choice(TAGS))
    many = b"\xdd" + _LENGTH.pack(count)
    return chance.choice(
        (
            b"\x91" * count,
            b"\x81\xa1k" * count,
            head + b"\xa7targets" + many + b"\xa1x" * count,
            head + b"\xa7failure\x81\xa1k" + many + b"\x90" * count,
            head + b"\xa5facts\x81\xa1k" + many + b"\x80" * count,
            b"\xdf" + _LENGTH.pack(count) + b"\xa4type\xa0" * count,
        )
    )


def make(chance: random.Random) -> Stream:
    """One stream of frames."""
    name = chance.choice(tuple(UNIONS))
    way = chance.randrange(10)
    if way == 9:
        return _sealed(chance)
    true = chance.choice(TRUE[name])
    match way:
        case 0:
            noise = chance.randbytes(chance.randrange(80))
            data = noise if chance.random() < 0.3 else framed(noise)
        case 1 | 2:
            data = framed(damaged(true, chance))
        case 3:
            data = damaged(framed(true), chance)  # the length too
        case 4:
            length = chance.choice((0, 1, len(true) - 1, len(true) + 1, 2**18 + 1, 2**23, 2**23 + 1, 2**31, 2**32 - 1))
            data = _LENGTH.pack(length) + true
        case 5 | 6:
            fields = msgspec.msgpack.decode(true)
            for key in chance.sample(sorted(fields), min(len(fields), chance.randint(1, 2))):
                fields[key] = plain(chance)
            if chance.random() < 0.2:
                fields[chance.choice(["seq", "", "of_a_later_version", "type"])] = plain(chance)
            data = framed(_ENCODER.encode(fields))
        case 7:
            other = chance.choice(TRUE[chance.choice(tuple(UNIONS))])
            cut, end = chance.randrange(len(true) + 1), chance.randrange(len(other) + 1)
            data = framed(true[:cut] + other[end:])
        case _:
            data = (
                framed(bomb(chance))
                if chance.random() < 0.1
                else framed(chance.choice(TRUE[chance.choice(("jobs", name))]))
            )
    before = b"".join(framed(chance.choice(TRUE[name])) for _ in range(chance.randrange(3)))
    return _cut(name, before + data, chance)


def _sealed(chance: random.Random) -> Stream:
    encoder = Encoder(framing.sealing(KEY, framing.REPORTS))
    frames = [encoder.frame(chance.choice(_SEALED)) for _ in range(chance.randint(1, 4))]
    match chance.randrange(4):
        case 0:
            frames.insert(chance.randrange(len(frames) + 1), chance.choice(frames))
        case 1:
            chance.shuffle(frames)
        case 2:
            frames.insert(chance.randrange(len(frames) + 1), chance.randbytes(chance.randrange(40)))
        case _:
            frames = [damaged(b"".join(frames), chance)]
    return _cut("reports", b"".join(frames), chance, sealed=True)


def _cut(name: str, data: bytes, chance: random.Random, *, sealed: bool = False) -> Stream:
    cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randrange(4)))
    return Stream(name, data, tuple(cuts), sealed)


_KINDS = {name: frozenset(typing.get_args(union)) for name, union in UNIONS.items()}
_PLAIN = {name: msgspec.msgpack.Decoder(union) for name, union in UNIONS.items()}


def read(stream: Stream, *, whole: bool) -> tuple[list[bytes], str]:
    """What arrives, encoded again, and how it ends: "waits", "done" or the refusal's type."""
    opener = Opener(KEY, framing.REPORTS) if stream.sealed else None
    decoder: Decoder[Any] = Decoder(UNIONS[stream.union], opener, limit=LIMITS.get(stream.union, MAX_FRAME_BYTES))
    marks = [0, *(() if whole else stream.cuts), len(stream.data)]
    arrived: list[bytes] = []
    fed = 0
    try:
        for start, end in pairwise(marks):
            fed = end
            for message in decoder.feed(stream.data[start:end]):
                check(type(message) in _KINDS[stream.union], f"a {type(message).__name__} among {stream.union}")
                arrived.append(_ENCODER.encode(message))
            check(decoder.pending_bytes <= end, f"{decoder.pending_bytes} bytes are held of {end}")
    except FrameError as error:
        check(decoder.pending_bytes <= fed, f"{decoder.pending_bytes} bytes are held of {fed}")
        check(0 < len(str(error)) < 2000, f"a refusal of {len(str(error))} characters")
        str(error).encode()
        return arrived, type(error).__name__
    return arrived, "waits for more" if decoder.pending_bytes else "read to its end"


def judge(stream: Stream) -> str:
    """The promises of the module."""
    arrived, end = read(stream, whole=True)
    if stream.cuts:
        pieces = read(stream, whole=False)
        check(
            pieces == (arrived, end),
            f"in pieces {len(pieces[0])} arrive and it {pieces[1]}, whole {len(arrived)}, {end}",
        )
    for body in arrived:
        again = _ENCODER.encode(_PLAIN[stream.union].decode(body))
        check(again == body, "a message is not itself after another way")
    if stream.sealed:
        check(is_beginning(stream, arrived), "what arrived was not sent so")
    return f"{'sealed' if stream.sealed else stream.union}: {end}"


def is_beginning(stream: Stream, arrived: list[bytes]) -> bool:
    """Whether these bodies, sealed anew in this order, are the bytes with which the stream begins.

    Only the key's owner makes such bytes, and the number in every seal fixes the order.
    """
    seal = framing.sealing(KEY, framing.REPORTS)
    return stream.data.startswith(b"".join(framed(seal(body)) for body in arrived))


# An empty list or table of one byte becomes an object of 64 bytes and a pointer, and a stream is read twice.
FUZZ: Fuzz[Stream] = Fuzz(make, judge, lambda stream: len(stream.data), lambda size: 256 * size + (128 << 10))
