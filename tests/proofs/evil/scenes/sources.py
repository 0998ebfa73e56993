"""Rows 71 to 75: sources that no compiler takes, trees and files that are too large, and a rung that writes one."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from aisp.engine.protocol import events
from aisp.engine.watch import RUN_BEHIND_S
from aisp.engine.watches import MOST_CUT
from aisp.kernels.catalog.sources import MAX_FILES
from aisp.store.outcomes import State
from tests.proofs.evil import corpus
from tests.proofs.evil.corpus import Row
from tests.proofs.evil.matrix import fault
from tests.proofs.evil.stage import Stage, assert_timed, eventually
from tests.proofs.evil.watched import NAME, UNRUNNABLE, Watched, planned_only, variant, watching

UNCOMPILABLE = {
    "deep": ("T = " + "+".join(["1"] * 20_000) + "\n", "nested too deeply for Python's compiler"),
    "signs": ("T = " + "-" * 200_000 + "1\n", "nested too deeply for Python's parser"),
    "nulls": ("T = 1\0\n", "null bytes"),
}


def banners(watched: Watched, word: str) -> list[str]:
    """What banners have told so far that has this word in it."""
    return [e.text for e in watched.stream.seen if isinstance(e, events.Banner) and word in e.text]


@fault(
    71,
    "a save that Python cannot compile: nested too deeply for its compiler or its parser, or with null bytes",
    "the edit has failed and its reason says why; the watch goes on; a run of such a file gives the same reason",
)
async def uncompilable(stage: Stage) -> str:
    told = []
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        for number, (source, why) in enumerate(UNCOMPILABLE.values()):
            (watched.folder / "optimized.py").write_text(corpus.OPTIMIZED + source)
            broken = await watched.edit()
            assert (broken.files, broken.run_id) == (["optimized.py"], "")
            assert broken.error.startswith("optimized.py") and why in broken.error, broken.error
            told.append(broken.error.partition("\n")[0])
            mended = await watched.save("optimized.py", variant(number))
            assert await watched.run_of(mended) == "unavailable"
    rows = [Row(name, corpus.OPTIMIZED + source, State.USER_ERROR) for name, (source, _) in UNCOMPILABLE.items()]
    rows.append(Row("importing", "import signs\n\n" + corpus.OPTIMIZED, State.USER_ERROR))
    root = stage.target("refused", *rows, root="plain")
    (root / "refused" / "signs.py").write_text(UNCOMPILABLE["signs"][0])
    result = await stage.engine.run(root, "plain:refused")
    assert_timed(result, "optimized")
    for row in rows:
        arm = result.arm(row.rung)
        name, file = (row.name, row.rung) if row.name in UNCOMPILABLE else ("signs", "signs")
        assert arm.state is State.USER_ERROR, arm
        assert f"{file}.py" in arm.reason and UNCOMPILABLE[name][1] in arm.reason, arm.reason
        assert "axes" not in arm.reason
    return "; ".join(told)


@fault(
    72,
    "a folder links to a large tree, and then names the link in its lesson",
    "the link is not followed, and told with what lies there; named, it is refused with count and size; saves are seen",
)
async def large_tree(stage: Stage) -> str:
    tree = stage.home / "tree"
    for number in range(MAX_FILES + 500):
        place = tree / f"part_{number % 50}" / f"{number}.h"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"//" * 500)
    small = stage.home / "common"
    small.mkdir()
    (small / "tile.h").write_text("// 0\n")
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        lesson = watched.folder / "lesson.md"
        (watched.folder / "tree").symlink_to(tree)
        edit = await watched.save("optimized.py", variant(1))
        await eventually(lambda: bool(banners(watched, "not followed")), "what lies behind the link is told")
        (left_out,) = banners(watched, "not followed")
        assert f"is a link out of the folder to {tree}" in left_out and 'links = ["tree"]' in left_out
        with stage.engine.history() as history:
            assert len(history.snapshot(edit.snapshot)) == 4
        lesson.write_text(UNRUNNABLE.replace("[inputs]", 'links = ["tree"]\n[inputs]', 1))
        refused = await watched.edit()
        assert refused.run_id == "" and f"tree: is a link to {tree} and holds" in refused.error, refused.error
        with stage.engine.history() as history:
            assert len(history.snapshot(refused.snapshot)) == 4
        (watched.folder / "tree").unlink()
        (watched.folder / "common").symlink_to(small)
        lesson.write_text(UNRUNNABLE.replace("[inputs]", 'links = ["common"]\n[inputs]', 1))
        named = await watched.edit()
        while named.error or "common/tile.h" not in named.files:  # the saves of the link and the lesson seen apart
            named = await watched.edit()
        await watched.settle()  # the watch is armed
        saved_ns = time.monotonic_ns()
        (small / "tile.h").write_text("// 1\n")
        followed = await watched.saved("common/tile.h", "// 1\n")
        assert await watched.run_of(followed) == "unavailable"
        seen_s = (followed.save_ns - saved_ns) / 1e9
    home = f"{stage.home}/"
    told = f"{left_out.replace(home, '')}; named: {refused.error.replace(home, '')}"
    return f"{told}; behind a small link that is named, a save was seen after {seen_s:.2f} s"


@fault(
    73,
    "a source of 3 GiB, all of it a hole, appears in a watched folder",
    "it is told with its size and never read; saves are seen as before and the engine's memory stays flat",
)
async def huge_source(stage: Stage) -> str:
    async with watching(stage.engine, planned_only(stage.home)) as watched:
        with (watched.folder / "big.py").open("wb") as sink:
            sink.truncate(3 << 30)
        seen_s = []
        for number in range(3):
            saved_ns = time.monotonic_ns()
            edit = await watched.save("optimized.py", variant(number))
            seen_s.append((edit.save_ns - saved_ns) / 1e9)
        assert await watched.run_of(edit) == "unavailable"
        (left_out,) = banners(watched, "big.py")
        assert "has 3,221,225,472 bytes and is left out" in left_out
        with stage.engine.history() as history:
            assert "big.py" not in history.snapshot(edit.snapshot)
        (watched.folder / "big.py").unlink()
    told = left_out.replace(f"{stage.home}/", "")
    return f"{told}; saves were seen after {', '.join(f'{s * 1e3:.0f}' for s in seen_s)} ms"


TUNES = """\
import time
from pathlib import Path

Path({path!r}).write_text(f"CHOICE = {{time.time_ns()}}\\n")


def run(x):
    return x * 2
"""


@fault(
    74,
    "a rung writes a source beside itself whenever it runs, as an autotuner does, and nothing keeps it from that",
    f"after {MOST_CUT} runs that it ended the file is told with its path and its rung, and starts no further run "
    "until somebody else changes it",
    own=True,
)
async def tunes_itself(stage: Stage) -> str:
    engine = await stage.started(AISP_LANDLOCK="0")
    root = stage.target(NAME)
    tuned = root / NAME / "tuned.py"
    async with watching(engine, root) as watched:
        first = await watched.save("optimized.py", TUNES.format(path=os.fspath(tuned)))
        # What a run writes ends it, as a save would, until one may come to its end and say that it wrote it.
        ended, own = first, await watched.edit()
        while await watched.run_of(ended) == "cancelled":
            assert own.files == ["tuned.py"]
            ended, own = own, await watched.edit()
        assert await watched.run_of(ended) == "ok"
        assert (own.number, own.files) == (first.number + MOST_CUT + 1, ["tuned.py"])
        dropped = await watched.stream.finish(own.run_id)
        if dropped.superseded:  # the process of the second replica has written it too
            last = [edit for edit in watched.stream.seen if isinstance(edit, events.WatchEdit)][-1]
            dropped = await watched.stream.finish(last.run_id)
        assert (dropped.state, dropped.reason) == ("cancelled", "tuned.py was written by the run before, not by a save")
        (told,) = banners(watched, "tuned.py")
        assert f"{tuned} (by optimized)" in told
        before = tuned.read_bytes()
        again = await watched.save("optimized.py", "# 1\n" + TUNES.format(path=os.fspath(tuned)))
        assert await watched.run_of(again) == "ok"
        assert tuned.read_bytes() != before
        await watched.settle()
        files = [edit.files for edit in watched.edits[1:]]
        assert [told for told in files if told != ["tuned.py"]] == [["optimized.py"], ["optimized.py"], ["marker.h"]]
        assert files.count(["tuned.py"]) == MOST_CUT + 1
        await watched.stream.finish(watched.edits[-1].run_id)
        await asyncio.sleep(RUN_BEHIND_S + 1.0)  # what that run wrote at its end is no longer taken for its own
        somebody = await watched.save("tuned.py", "CHOICE = 0\n")
        assert somebody.run_id
        runs = len(watched.planned())
    return f"{told.replace(f'{stage.home}/', '')}; {runs} runs of {len(watched.edits)} edits, one of them dropped"


SAVES = 1000


@fault(
    75,
    f"{SAVES:,} saves in a burst, each of which empties the file and then fills it",
    "no run of an empty file; what stands there in the end runs",
)
async def emptied_in_a_burst(stage: Stage) -> str:
    def burst(file: Path) -> None:
        for number in range(SAVES):
            with file.open("w") as sink:
                time.sleep(0.002)
                sink.write(variant(number))
            time.sleep(0.002)

    async with watching(stage.engine, planned_only(stage.home)) as watched:
        await asyncio.to_thread(burst, watched.folder / "optimized.py")
        last = await watched.edit()
        while watched.source(last, "optimized.py") != variant(SAVES - 1).encode():
            last = await watched.edit()
        assert await watched.run_of(last) == "unavailable"  # before the next edit, which would end a run that waits
        await watched.settle()
        empty = [edit.number for edit in watched.edits if not watched.source(edit, "optimized.py")]
        assert empty == []
    return f"{SAVES:,} saves, {len(watched.edits) - 2} edits, none of an empty file; the last one ran"
