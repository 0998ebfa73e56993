"""Frames: every message survives the way, and whatever else arrives ends the connection and nothing more."""

from __future__ import annotations

import enum
import random
import struct
import tracemalloc
import types
import typing
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.engine.protocol import events, framing, jobs, reports, requests
from aisp.engine.protocol.framing import MAX_FRAME_BYTES, Decoder, Encoder, FrameError
from tests.store.examples import RECORDS

UNIONS = {
    "requests": requests.AnyRequest,
    "events": events.AnyEvent,
    "jobs": jobs.AnyJob,
    "reports": reports.AnyReport,
}
MESSAGES = [(name, kind) for name, union in UNIONS.items() for kind in typing.get_args(union)]


def value_of(annotation: Any, seed: int) -> Any:
    """A value of an annotated type, another one for another seed. Knows the types that messages are made of."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        chosen = [kind for kind in arguments if kind is not type(None)]
        return None if seed % 3 == 2 else value_of(chosen[0], seed)
    if origin is list:
        return [value_of(arguments[0], seed + n) for n in range(seed % 4)]
    if origin is dict:
        return {f"key {n}": value_of(arguments[1], seed + n) for n in range(seed % 3)}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return list(annotation)[seed % len(annotation)]
    if annotation in RECORDS:  # which refuse what cannot be true
        return RECORDS[annotation]
    if annotation is Any:
        return [None, True, 2.5, "text", [1, 2]][seed % 5]
    if annotation is bool:
        return seed % 2 == 1
    if annotation is int:
        return [0, -1, 2**63 - 1, -(2**63), 17][seed % 5]
    if annotation is float:
        return [0.0, -1.5, 1e300, 5e-324, float("inf")][seed % 5]
    if annotation is str:
        return ["", "plain", "naïve ☕ 你好\n\t", "x" * 300][seed % 4]
    if annotation is bytes:
        return [b"", b"\x00\xff\xfe", b"/home/caf\xe9"][seed % 3]
    if annotation is msgspec.Raw:
        return msgspec.Raw(msgspec.msgpack.encode(value_of(Any, seed)))
    assert issubclass(annotation, msgspec.Struct), annotation
    return instance(annotation, seed)


def instance(kind: type[msgspec.Struct], seed: int) -> msgspec.Struct:
    """A message with every field filled in."""
    hints = typing.get_type_hints(kind)
    return kind(
        **{field.name: value_of(hints[field.name], seed + n) for n, field in enumerate(msgspec.structs.fields(kind))}
    )


def decoder(name: str) -> Decoder[Any]:
    return Decoder(UNIONS[name])


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kind"), MESSAGES, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_every_message_arrives_as_it_was_sent(name: str, kind: type[msgspec.Struct]) -> None:
    for seed in range(12):
        sent = instance(kind, seed)
        (arrived,) = decoder(name).feed(Encoder().frame(sent))
        assert type(arrived) is kind
        assert arrived == sent


def test_nan_arrives_as_nan() -> None:
    nan = float("nan")
    sent = events.TelemetryBatch(
        gpu=0, at_ns=[1], sm_clock_mhz=[nan], memory_clock_mhz=[nan], temperature_c=[1.0], power_w=[nan], throttle=[-1]
    )
    (arrived,) = decoder("events").feed(Encoder().frame(sent))
    assert arrived.sm_clock_mhz[0] != arrived.sm_clock_mhz[0]
    assert arrived.temperature_c == [1.0]


@pytest.mark.parametrize("name", UNIONS)
def test_the_messages_of_a_direction_have_tags_of_their_own(name: str) -> None:
    tags = [kind.__struct_config__.tag for kind in typing.get_args(UNIONS[name])]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("name", UNIONS)
def test_every_message_that_a_module_defines_may_be_sent(name: str) -> None:
    module = {"requests": requests, "events": events, "jobs": jobs, "reports": reports}[name]
    base = {"requests": requests.Request, "events": events.Event, "jobs": jobs.Job, "reports": reports.Report}[name]
    defined = {kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, base)} - {base}
    assert defined == set(typing.get_args(UNIONS[name]))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 64, 100_000])
def test_frames_are_found_however_the_bytes_are_cut(size: int) -> None:
    sent = [instance(kind, seed) for seed in range(3) for kind in typing.get_args(events.AnyEvent)]
    stream = b"".join(Encoder().frame(message) for message in sent)
    reading = decoder("events")
    arrived = [m for start in range(0, len(stream), size) for m in reading.feed(stream[start : start + size])]
    assert arrived == sent
    assert reading.pending_bytes == 0


def test_a_frame_that_is_cut_at_any_byte_gives_nothing_and_is_known_to_be_cut() -> None:
    frame = Encoder().frame(requests.StartRuns(seq=3, targets=["ch07:transpose"], rungs=["optimized"]))
    for cut in range(1, len(frame)):
        reading = decoder("requests")
        assert list(reading.feed(frame[:cut])) == []
        assert reading.pending_bytes == cut
        (arrived,) = reading.feed(frame[cut:])
        assert arrived.targets == ["ch07:transpose"]


def test_what_came_before_a_broken_frame_is_delivered() -> None:
    good = Encoder().frame(requests.GetStatus(seq=1))
    stream = decoder("requests").feed(good + framed(b"\xc1"))
    assert next(stream) == requests.GetStatus(seq=1)
    with pytest.raises(FrameError):
        next(stream)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [MAX_FRAME_BYTES + 1, 2**31, 2**32 - 1])
def test_a_frame_that_announces_too_much_is_refused_before_it_arrives(length: int) -> None:
    with pytest.raises(FrameError, match=f"a frame of {length} bytes was announced, the limit is {MAX_FRAME_BYTES}"):
        list(decoder("requests").feed(struct.pack(">I", length)))


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(FrameError, match=r"EngineLog is \d+ bytes, the limit is 8388608"):
        Encoder().frame(events.EngineLog(to=1, lines=["x" * 60_000] * 140))


def test_the_longest_message_that_is_allowed_arrives() -> None:
    lines = ["x" * 60_000] * 139
    room = MAX_FRAME_BYTES - len(Encoder().frame(events.EngineLog(to=1, lines=[*lines, "x" * 1000]))) + 4 + 1000
    frame = Encoder().frame(events.EngineLog(to=1, lines=[*lines, "x" * room]))
    assert len(frame) == MAX_FRAME_BYTES + 4
    (arrived,) = decoder("events").feed(frame)
    assert len(arrived.lines[-1]) == room


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",  # never used in msgpack
        b"\x80",  # an empty map: no type
        b"\x00",
        msgspec.msgpack.encode({"type": "no such type"}),
        msgspec.msgpack.encode({"type": 5}),
        msgspec.msgpack.encode({"type": "get_status"}),  # seq is missing
        msgspec.msgpack.encode({"type": "get_status", "seq": "1"}),
        msgspec.msgpack.encode({"type": "get_status", "seq": 1.5}),
        msgspec.msgpack.encode({"type": "get_status", "seq": 2**64 - 1, "more": 1}),
        msgspec.msgpack.encode({"type": "start_runs", "seq": 1, "targets": [1]}),
        msgspec.msgpack.encode({"type": "start_runs", "seq": 1, "targets": "ch07"}),
        msgspec.msgpack.encode([1, 2, 3]),
        msgspec.msgpack.encode({"type": "get_status", "seq": 1}) + b"\x00",  # bytes behind the message
        b"\x82\xa4type\xaaget_status\xa3seq\xc7\xff\x05" + b"\x00" * 255,  # an extension type
        b"\x81\xa4type\xa2\xff\xfe",  # no UTF-8
        b"\xdd\xff\xff\xff\xff",  # four billion elements announced, none there
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 100_000,  # nested 100 000 deep
        b"\x81\xa4type" * 50_000,
    ],
    ids=lambda body: f"{len(body)}-{body[:12].hex()}",
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="not a message"):
        list(decoder("requests").feed(framed(body)))


def test_lone_surrogates_cannot_be_smuggled_in() -> None:
    body = b"\x82\xa4type\xaaget_status\xa3seq\x01".replace(b"get_status", b"\xed\xa0\x80_status")
    with pytest.raises(FrameError):
        list(decoder("requests").feed(framed(body)))


@pytest.mark.parametrize("name", ["requests", "jobs", "reports", "events"])
def test_a_message_of_another_direction_is_refused(name: str) -> None:
    for other, union in UNIONS.items():
        mine = {kind.__struct_config__.tag for kind in typing.get_args(UNIONS[name])}
        for kind in typing.get_args(union):
            if other != name and kind.__struct_config__.tag not in mine:
                with pytest.raises(FrameError):
                    list(decoder(name).feed(Encoder().frame(instance(kind, 1))))


def with_more(message: msgspec.Struct) -> bytes:
    """The message's frame with a field that this version does not know."""
    fields = msgspec.msgpack.decode(Encoder().frame(message)[4:])
    return framed(msgspec.msgpack.encode({**fields, "of_a_later_version": [1, {"x": 2}]}))


@pytest.mark.parametrize("kind", typing.get_args(events.AnyEvent), ids=lambda kind: kind.__name__)
def test_an_event_of_a_later_version_is_read_without_what_is_unknown(kind: type[msgspec.Struct]) -> None:
    sent = instance(kind, 1)
    (arrived,) = decoder("events").feed(with_more(sent))
    assert arrived == sent


@pytest.mark.parametrize("kind", typing.get_args(requests.AnyRequest), ids=lambda kind: kind.__name__)
def test_a_request_with_an_unknown_field_is_refused(kind: type[msgspec.Struct]) -> None:
    """It may ask for something that this engine would silently not do."""
    with pytest.raises(FrameError, match="of_a_later_version"):
        list(decoder("requests").feed(with_more(instance(kind, 1))))


# -- fuzzing -----------------------------------------------------------------------------------------------------------


def swallow(name: str, data: bytes) -> None:
    """Feed everything; only FrameError may come out, and every message must be of the union."""
    kinds = typing.get_args(UNIONS[name])
    try:
        for message in decoder(name).feed(data):
            assert isinstance(message, kinds)
    except FrameError:
        pass


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(UNIONS)), st.binary(max_size=300))
def test_garbage_bytes_raise_nothing_but_a_frame_error(name: str, data: bytes) -> None:
    swallow(name, data)
    swallow(name, framed(data))


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TAGS = sorted({str(kind.__struct_config__.tag) for _, kind in MESSAGES})
FIELDS = sorted({field.name for _, kind in MESSAGES for field in msgspec.structs.fields(kind)})


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(sorted(UNIONS)), st.sampled_from(TAGS), st.dictionaries(st.sampled_from(FIELDS), plain, max_size=5)
)
@pytest.mark.slow
def test_well_formed_messages_with_wrong_contents_raise_nothing_but_a_frame_error(
    name: str, tag: str, fields: dict[str, Any]
) -> None:
    swallow(name, framed(msgspec.msgpack.encode({"type": tag, **fields})))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(range(len(MESSAGES))), st.integers(0, 2**32 - 1))
def test_a_true_message_with_flipped_bits_raises_nothing_but_a_frame_error(number: int, seed: int) -> None:
    name, kind = MESSAGES[number]
    chance = random.Random(seed)
    frame = bytearray(Encoder().frame(instance(kind, seed % 12)))
    for _ in range(chance.randint(1, 4)):
        frame[chance.randrange(4, len(frame))] ^= 1 << chance.randrange(8)
    swallow(name, bytes(frame))


def test_a_peer_cannot_make_the_decoder_hold_more_than_what_it_sent() -> None:
    """Lengths and counts that are announced but never sent allocate nothing."""
    tracemalloc.start()
    try:
        for name in UNIONS:
            for lie in (
                b"\xdd\x7f\xff\xff\xff",
                b"\xdf\x7f\xff\xff\xff",
                b"\xc6\x7f\xff\xff\xff",
                b"\xdb\x7f\xff\xff\xff",
            ):
                swallow(name, framed(b"\x82\xa4type\xa6status\xa5lines" + lie))
                swallow(name, framed(lie))
            reading = decoder(name)
            assert list(reading.feed(struct.pack(">I", MAX_FRAME_BYTES) + b"x" * 1000)) == []
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def test_a_decoder_keeps_no_more_than_one_unfinished_frame() -> None:
    reading = decoder("events")
    frame = Encoder().frame(events.LogLine(level="INFO", text="x" * 1000))
    for _ in range(2000):
        assert len(list(reading.feed(frame + frame[:500]))) == 1
        assert reading.pending_bytes == 500
        assert len(list(reading.feed(frame[500:]))) == 1
    assert reading.pending_bytes == 0


# -- sealed ------------------------------------------------------------------------------------------------------------

KEY = bytes(range(32))


def sealed(count: int, *, key: bytes = KEY, direction: bytes = framing.REPORTS) -> list[bytes]:
    """Frames of the first reports of a channel."""
    encoder = Encoder(framing.sealing(key, direction))
    return [encoder.frame(reports.Sustained(calls=number)) for number in range(count)]


def opened(*frames: bytes) -> list[int]:
    reading: Decoder[Any] = Decoder(reports.AnyReport, framing.Opener(KEY, framing.REPORTS))
    return [message.calls for frame in frames for message in reading.feed(frame)]


def test_sealed_frames_arrive_in_their_order_however_the_bytes_are_cut() -> None:
    stream = b"".join(sealed(50))
    for size in (1, 3, 11, 12, 13, 27, 28, 29, 1000):
        assert opened(*(stream[start : start + size] for start in range(0, len(stream), size))) == list(range(50))


@pytest.mark.parametrize("kind", typing.get_args(reports.AnyReport), ids=lambda kind: kind.__name__)
def test_a_seal_leaves_every_report_as_it_was(kind: type[msgspec.Struct]) -> None:
    sent = instance(kind, 4)
    reading: Decoder[Any] = Decoder(reports.AnyReport, framing.Opener(KEY, framing.REPORTS))
    assert list(reading.feed(Encoder(framing.sealing(KEY, framing.REPORTS)).frame(sent))) == [sent]


def refused(*frames: bytes) -> str:
    with pytest.raises(framing.ForgedFrameError) as caught:
        opened(*frames)
    return str(caught.value)


def test_frames_that_are_forged_replayed_reordered_or_missing_are_refused() -> None:
    first, second, third = sealed(3)
    assert "came twice or out of order" in refused(first, first)
    assert "frame 1 was expected; what came (2)" in refused(first, third)
    assert "frame 0 was expected" in refused(second)
    assert "not made with this channel's key" in refused(*sealed(1, key=bytes(32)))
    assert "not made with this channel's key" in refused(*sealed(1, direction=framing.JOBS))
    assert "no room for its seal" in refused(Encoder().frame(reports.Sustained(calls=1)))
    assert "not made with this channel's key" in refused(first[:-1] + bytes([first[-1] ^ 1]))


def test_bytes_beside_frames_are_refused_before_the_frame_that_they_announce_would_be_whole() -> None:
    first, second = sealed(2)
    assert "out of order, or bytes beside frames" in refused(first, b"\x00\x01\x00\x00" + b"x" * 8)
    assert "was announced" in refused(first, b"speedup: 99\n")
    for stray in (b"x", b"\x00", b"\x00\x00", b"\x00\x00\x01", b"\n" * 5):
        assert refused(first, stray + second + bytes(600)) != ""


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_change_to_a_stream_of_sealed_frames_gets_through(seed: int) -> None:
    chance = random.Random(seed)
    stream = bytearray(b"".join(sealed(4)))
    place = chance.randrange(len(stream))
    match chance.randrange(3):
        case 0:
            stream[place] ^= 1 << chance.randrange(8)
        case 1:
            stream[place:place] = chance.randbytes(chance.randint(1, 40))
        case _:
            del stream[place : place + chance.randint(1, 40)]
    reading: Decoder[Any] = Decoder(reports.AnyReport, framing.Opener(KEY, framing.REPORTS))
    arrived: list[int] = []
    try:
        arrived.extend(message.calls for message in reading.feed(bytes(stream)))
    except framing.ForgedFrameError:
        pass
    else:
        # Cut off in the middle, or at the end of a frame: what is missing is missed by whoever waits for it.
        assert len(arrived) < 4
    assert arrived == list(range(len(arrived)))


def test_the_longest_message_may_be_sealed() -> None:
    room = MAX_FRAME_BYTES - len(Encoder().frame(reports.Failed(job="", kind="", summary="", traceback="x" * 70_000)))
    sent = reports.Failed(job="", kind="", summary="", traceback="x" * (room + 4 + 70_000))
    reading: Decoder[Any] = Decoder(reports.AnyReport, framing.Opener(KEY, framing.REPORTS))
    assert list(reading.feed(Encoder(framing.sealing(KEY, framing.REPORTS)).frame(sent))) == [sent]


def test_the_key_is_in_no_attribute_and_may_be_wiped() -> None:
    key = bytearray(KEY)
    seal = framing.sealing(key, framing.REPORTS)
    key[:] = bytes(32)
    assert opened(Encoder(seal).frame(reports.Sustained(calls=7))) == [7]
    held = [cell.cell_contents for cell in seal.__closure__ or ()]
    assert not [value for value in held if isinstance(value, (bytes, bytearray)) and len(value) == 32]
