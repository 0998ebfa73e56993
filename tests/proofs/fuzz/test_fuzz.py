"""A short fuzz of frames and of lessons, and by name what the long ones found."""

from __future__ import annotations

import json
import random
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisp.engine.protocol import events, requests
from aisp.engine.protocol.framing import MAX_REQUEST_BYTES, Decoder, Encoder, FrameError
from aisp.kernels.catalog import frontmatter, loader
from aisp.kernels.catalog.grammar import GrammarError, evaluate
from aisp.kernels.catalog.model import Problem
from aisp.kernels.catalog.tensors import parse_tensor, shape
from tests.proofs.fuzz import __main__ as command
from tests.proofs.fuzz import frames, lessons
from tests.proofs.fuzz.tally import BrokenPromiseError, Fuzz, Tally, check

LESSON = """+++
title = "Sums"
axes = {{ M = 8, N = 8 }}
flops = "M*N"
{0}
[inputs]
x = "float32 [M, N] normal"
[outputs]
y = "float32 [M]"
{1}
+++
"""


def problems(head: str = "", tail: str = "") -> tuple[Problem, ...]:
    """What is wrong with a lesson that is right but for these lines."""
    return frontmatter.read(Path("/l/lesson.md"), LESSON.format(head, tail).encode())[1]


# -- a short fuzz ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [7, time.time_ns() >> 20], ids=["fixed", "of-the-day"])
@pytest.mark.slow
def test_ten_thousand_hostile_frames_are_messages_or_a_closed_connection(seed: int) -> None:
    tally = frames.FUZZ.run(10_000, seed)
    assert tally.inputs == 10_000
    for way in ("requests: FrameError", "events: read to its end", "jobs: waits for more", "sealed: ForgedFrameError"):
        assert tally.outcomes[way] > 50, tally.outcomes


@pytest.mark.parametrize("seed", [7, time.time_ns() >> 20], ids=["fixed", "of-the-day"])
@pytest.mark.slow
def test_two_thousand_hostile_lessons_are_lessons_or_problems_with_a_fix(seed: int) -> None:
    tally = lessons.FUZZ.run(2_000, seed)
    assert tally.inputs == 2_000
    assert all(tally.outcomes[way] > 50 for way in ("a lesson", "one problem", "several problems")), tally.outcomes


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["title", "techniques[]", "flops", "bytes", "goal", "x"]), st.text(max_size=300), st.binary())
def test_any_text_in_any_place_is_a_lesson_or_a_problem_with_a_fix(key: str, text: str, rest: bytes) -> None:
    value = json.dumps(text, ensure_ascii=False).replace("\x7f", "")  # a string of TOML, but for this character
    line = f"{key.removesuffix('[]')} = " + (f"[{value}]" if key.endswith("[]") else value)
    lines = [line if old.startswith(line[: line.index("=")]) else old for old in LESSON.format("", "").split("\n")]
    if line not in lines:
        lines.insert(1, line)
    assert lessons.judge("\n".join(lines).encode()) != ""
    assert lessons.judge(b"+++\n" + rest + b"\n+++\n") != "a lesson"


def test_the_recorded_fuzz_was_as_long_as_promised_and_broke_nothing() -> None:
    kept = json.loads((Path(__file__).parents[3] / "docs/reliability/fuzz.json").read_text("utf-8"))
    assert (kept["frames"]["inputs"], kept["lessons"]["inputs"]) == (1_000_000, 100_000)
    for figures in kept.values():
        assert figures["broken"] == 0
        assert sum(figures["outcomes"].values()) == figures["inputs"]


# -- the fuzz itself ---------------------------------------------------------------------------------------------------


def test_an_input_follows_from_its_seed_and_number() -> None:
    assert frames.FUZZ.one(3, 17) == frames.FUZZ.one(3, 17)
    assert lessons.FUZZ.one(3, 17) == lessons.FUZZ.one(3, 17)
    assert lessons.FUZZ.one(3, 17) != lessons.FUZZ.one(4, 17)


def failing(judge: object) -> str:
    fuzz: Fuzz[bytes] = Fuzz(lambda chance: chance.randbytes(4), judge, len, lambda size: 1 << 20)  # type: ignore[arg-type]
    with pytest.raises(BrokenPromiseError) as caught:
        fuzz.run(120, 5)
    return str(caught.value)


def test_what_raises_allocates_or_breaks_a_promise_ends_the_fuzz_with_its_number() -> None:
    counted: list[int] = []

    def breaks(data: bytes) -> str:
        counted.append(len(data))
        check(len(counted) < 8, "eight of them")
        return "read"

    assert failing(breaks) == "input 7 of seed 5: eight of them"
    assert failing(lambda data: {}["no such key"]) == "input 0 of seed 5: KeyError: 'no such key'"
    told = failing(lambda data: str(len(bytes(5 << 20))))
    assert told.startswith("input 0 of seed 5: it allocated 52")


def test_a_decoder_that_holds_too_much_or_reorders_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(Decoder[object]):
        def decode(self, body: bytes) -> object:
            return super().decode(body) if len(self._buffer) == len(body) + 4 else requests.GetStatus(seq=0)

    monkeypatch.setattr(frames, "Decoder", Careless)
    with pytest.raises(BrokenPromiseError):
        frames.FUZZ.run(2000, 1)


def test_the_figures_of_one_kind_leave_those_of_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "new" / "fuzz.json"
    assert command.main(["frames", "--inputs", "40", "--record", str(kept)]) == 0
    assert command.main(["lessons", "--inputs", "30", "--seed", "2", "--record", str(kept)]) == 0
    found = json.loads(kept.read_text("utf-8"))
    assert (found["frames"]["inputs"], found["lessons"]["inputs"]) == (40, 30)
    assert found["lessons"]["command"] == "python -m tests.proofs fuzz lessons --inputs 30 --seed 2"
    assert sum(found["frames"]["outcomes"].values()) == 40
    assert command.main(["lessons", "--only", "3"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] in ("a lesson", "one problem", "several problems")


def test_a_broken_promise_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> Tally:
        raise BrokenPromiseError("input 5 of seed 1: it allocated 9 bytes")

    monkeypatch.setattr(Fuzz, "run", run)
    assert command.main(["frames"]) == 1
    assert capsys.readouterr().err == "fuzz: input 5 of seed 1: it allocated 9 bytes\n"


# -- frames: what was found --------------------------------------------------------------------------------------------


def test_a_client_may_name_a_thousand_targets_and_no_request_costs_more_than_a_few_megabytes() -> None:
    names = [f"ch{n % 20:02d}:a_target_with_quite_a_long_name_{n}" for n in range(1000)]
    many = requests.StartRuns(seq=1, roots=["/home/somebody/kernels"] * 20, targets=names)
    frame = Encoder(limit=MAX_REQUEST_BYTES).frame(many)
    assert list(Decoder[object](requests.AnyRequest, limit=MAX_REQUEST_BYTES).feed(frame)) == [many]
    for item in (b"\xa0", b"\xa1x", b"\xa2xy"):
        count = (MAX_REQUEST_BYTES - 100) // len(item)
        body = b"\x83\xa4type\xaastart_runs\xa3seq\x01\xa7targets\xdd" + struct.pack(">I", count) + item * count
        tracemalloc.start()
        list(Decoder[object](requests.AnyRequest, limit=MAX_REQUEST_BYTES).feed(frames.framed(body)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12_000_000


def test_a_limit_holds_for_whoever_sends_and_for_whoever_reads() -> None:
    long = events.EngineLog(to=1, lines=["x" * 2000])
    with pytest.raises(FrameError, match=r"EngineLog is \d+ bytes, the limit is 1000"):
        Encoder(limit=1000).frame(long)
    with pytest.raises(FrameError, match=r"was announced, the limit is 1000"):
        list(Decoder[object](events.AnyEvent, limit=1000).feed(Encoder().frame(long)[:4]))


# -- lessons: what was found -------------------------------------------------------------------------------------------

HUGE = "0x" + "f" * 5000


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ("ranks = " + HUGE, "ranks"),
        ("needs = { sm = " + HUGE + " }", "needs.sm"),
        ("needs = { gpus = " + HUGE + " }", "needs.gpus"),
        ("bytes = " + HUGE, "bytes"),
        ("techniques = [" + HUGE + "]", "techniques"),
        ("tolerance = { float32 = " + HUGE + " }", "tolerance.float32"),
        ("expect = { speedup = [1, " + HUGE + '], on = "H100", why = "so" }', "expect.speedup"),
        ("fuzz = { axes = { M = [" + HUGE + "] } }", "fuzz.axes.M"),
        ("fuzz = { axes = { M = { most = " + HUGE + " } } }", "fuzz.axes.M"),
    ],
)
def test_a_number_of_thousands_of_digits_is_a_problem_of_its_key(head: str, key: str) -> None:
    assert problems() == ()
    (problem,) = problems(head)
    assert problem.key == key
    assert problem.fix


def test_a_decimal_number_that_python_will_not_read_is_a_problem() -> None:
    (problem,) = problems("ranks = 1" + "0" * 5000)
    assert problem.message.startswith("not TOML: exceeds the limit")


def test_a_key_that_looks_like_a_place_is_not_taken_for_one() -> None:
    (problem,) = problems('needs = { "at line 99999" = 1, "at line 99999" = 2 }')
    assert "at line 99999" in problem.message
    assert "(at line 5, column" in problem.message
    assert problem.fix == "a key may stand once; keep one of them"


def test_a_tensor_of_many_large_dimensions_is_refused_in_words() -> None:
    spec = parse_tensor("x", "float32 [" + ",".join(["2**126"] * 60) + "] normal")
    with pytest.raises(GrammarError, match=r"would have 2\*\*7560 or more elements"):
        shape(spec, {})


def test_a_name_as_long_as_a_book_is_refused_before_it_is_remembered() -> None:
    with pytest.raises(GrammarError, match="the expression has 50000 characters"):
        evaluate("M" * 50_000, {"M": 1})


@pytest.mark.parametrize(
    ("head", "tail", "told"),
    [
        (".".join(["a"] * 30_000) + " = 1", "", "a line has more than 100 dots"),
        ("", "[" + ".".join(["a"] * 30_000) + "]", "a line has more than 100 dots"),
        ("x" * 70_000 + " = 1", "", "the front matter has 70"),
        ("", "[[cases]]\n" * 6000, "6000 of them"),
        ("", "[fuzz]\naxes = { " + ", ".join(f"B{n} = [1]" for n in range(4000)) + " }", "there is more"),
        ("\n".join(f"unknown_{n} = 1" for n in range(3000)), "", "there is more"),
        ("", "[rungs]\n" + "\n".join(f"r{n} = 1" for n in range(4000)), "4000 of them"),
    ],
    ids=["dotted key", "dotted table", "long key", "cases", "axes of fuzz", "unknown keys", "rungs"],
)
def test_a_lesson_that_announces_a_flood_is_refused_soon_and_in_little_memory(head: str, tail: str, told: str) -> None:
    """Each of the first four would have taken gigabytes, or hours."""
    began = time.process_time()
    tracemalloc.start()
    try:
        found = problems(head, tail)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found[-1].message.startswith(told)
    assert len(found) <= frontmatter.MAX_PROBLEMS + 1
    assert all(len(p.message) + len(p.fix) + len(p.key) < 2 * frontmatter.MAX_WORDS + 200 for p in found)
    assert peak < 40_000_000
    assert time.process_time() - began < 5


def test_axes_without_end_are_one_problem() -> None:
    many = ", ".join(f"A{n} = 1" for n in range(65))
    text = LESSON.format("", "").replace("M = 8, N = 8", many)
    found = frontmatter.read(Path("/l/lesson.md"), text.encode())[1]
    assert [(p.key, p.message, p.fix) for p in found] == [("axes", "65 of them", "keep to 64")]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# Memory access", "Memory access"),
        ("#\tMemory access ##  \r", "Memory access"),
        ("# Chapter 7: Memory access", "Memory access"),
        ("# C #", "C"),
        ("#   ", "From the folder"),
        ("# " + "#" * 200_000 + "x", "#" * 200_000 + "x"),
        ("# " + " #" * 100_000 + "x", "#" + " #" * 99_999 + "x"),
    ],
    ids=["plain", "closed", "numbered", "letter", "blank", "signs", "signs and blanks"],
)
def test_the_heading_of_a_readme_is_found_in_one_pass(tmp_path: Path, line: str, title: str) -> None:
    began = time.process_time()
    assert loader._title(tmp_path / "from_the_folder", f"{line}\nmore\n") == title
    assert time.process_time() - began < 2


def test_no_lesson_that_is_shipped_is_near_a_limit() -> None:
    for head in lessons.HEADS:
        assert len(head) * 10 < frontmatter.MAX_MATTER
        assert max(line.count(b".") for line in head.split(b"\n")) * 10 < frontmatter.MAX_DOTS
    assert random.Random(1).choice(lessons.HEADS)
