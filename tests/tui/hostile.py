"""Hostile texts, a workbench that is full of them, and a tour through its screens for a real terminal.

    python -m tests.tui.hostile FOLDER LOG      # on a terminal: every screen once, then it ends

`TEXTS` are what a kernel, a path, an error, a lesson or a name may hold. `commands_in` finds what of them a terminal
would obey in the bytes that an app wrote. `tour` opens every screen over a catalogue, a store and an engine's stream
in which every free text is hostile, and writes to LOG, one JSON line a screen, what was drawn.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from textual.screen import Screen

from aisp.engine import paths
from aisp.engine.protocol import events, requests
from aisp.kernels.catalog.model import Catalog
from aisp.store import Store
from aisp.store.record import Finding, Run
from aisp.tui.screens import SCREENS
from aisp.tui.settings import Settings
from tests import heard
from tests.kernels.formats import kernelbench
from tests.replacing import replace
from tests.store.examples import finished, planned, samples_of
from tests.tui.app_support import LESSON, fill_store
from tests.tui.fakes import (
    FakeLink,
    batch_event,
    numbered,
    peak_events,
    planned_event,
    queue_item,
    quick_run_events,
    status_event,
    watch_events,
)
from tests.tui.fuzz_support import failure_event, failure_record, fuzz_events, fuzz_record, remember_fuzz
from tests.tui.roof_support import GEMM, ceilings, counted_catalog, fill_roofs
from tests.tui.trust_support import cheat_run_events

SIGN = "HOSTILE"  # stands in every payload, so that a sequence found in the bytes is known to be ours
TEXTS: Mapping[str, str] = {
    "writes the clipboard": f"\x1b]52;c;{base64.b64encode(SIGN.encode()).decode()}\x07",
    "sets the title": f"\x1b]0;{SIGN}\x1b\\",
    "a link": f"\x1b]8;;https://{SIGN}.invalid\x1b\\x\x1b]8;;\x1b\\",
    "asks where the cursor is": "\x1b[6n",
    "asks for the terminal's name": "\x1b[>0q\x1b[c",
    "a device control string": f"\x1bP{SIGN}\x1b\\",
    "an application command": f"\x1b_G{SIGN}\x1b\\",
    "resets the terminal": "\x1bc",
    "clears the screen": "\x1b[2J\x1b[3J",
    "asks as one C1 character": "\x9b6n",
    "sets the title with C1": f"\x9d0;{SIGN}\x9c",
    "moves back": "ab\x08\x08c\rd\x00\x07\x7f\x0b\x0c",
    "turns the text around": "\u202egnp.exe\u202c \u2066x\u2069 \u200f",
    "hides text": "a\u200bb\ufeff\u2060c\xad\u180e\u3164\U000e0041",
    "Rich's markup": "[red]x[/red] [/] [bold [link=https://x.invalid]y[/link]",
    "Textual's markup": "[@click=app.quit]x[/] [$error]z [/]",
    "Markdown": "`code` *x* [y](javascript:alert(1)) <b>z</b> | a | b |",
}
EVIL = " ".join(TEXTS.values())
EVIL_NAME = EVIL.replace("/", "\u2215").replace("\x00", "")[:100]  # for files: a name has no slash and 255 bytes
MARKUP = "[@click=app.quit]x[/]"

# Free texts by the names of their fields, in events, records and the catalogue. Ids and states are not among them.
FREE = frozenset({
    "title", "folder", "case", "detail", "reason", "note", "evidence", "text", "error", "lines", "files", "driver",
    "gpu_note", "flags", "why", "message", "fix", "key", "techniques", "summary", "lesson", "on", "notes", "script",
    "region", "finding", "build", "state_dir", "gpu", "versions", "output",
})  # fmt: skip


def poisoned(value: Any, free: frozenset[str] = FREE) -> Any:
    """The same event, record or catalogue, with hostile text before every free text of it; ids are left alone."""
    if isinstance(value, msgspec.Struct):
        own = free if getattr(value, "reason", None) else free - {"reason"}  # where there is none there can be none
        found = ((name, getattr(value, name)) for name in value.__struct_fields__)
        changes = {name: evil(item) if name in own else poisoned(item, free) for name, item in found}
        return msgspec.structs.replace(value, **changes)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(field.name for field in dataclasses.fields(value) if field.init)
        return replace(value, **_poisoned_fields(value, names, free))
    if isinstance(value, dict):
        return {key: evil(item) if key in free else poisoned(item, free) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(poisoned(item, free) for item in value)
    return value


def _poisoned_fields(value: Any, names: tuple[str, ...], free: frozenset[str]) -> dict[str, Any]:
    found = ((name, getattr(value, name)) for name in names)
    return {name: evil(item) if name in free else poisoned(item, free) for name, item in found}


def evil(value: Any) -> Any:
    """Hostile text before a text, or before each text of a list; anything else as it is."""
    if isinstance(value, str):
        return f"{EVIL} {value}"
    if isinstance(value, bytes):
        return EVIL_NAME.encode() + value
    if isinstance(value, (list, tuple)):
        return type(value)(evil(item) for item in value)
    return value


# -- what the bytes hold -----------------------------------------------------------------------------------------------

# What an app may write: SGR, cursor and mode sequences, the mouse pointer's shape (OSC 22), its own copies (OSC 52) and
# the window's title (OSC 2), whose texts are looked at. Textual rings the bell where an app dies, so that a crash is
# found as well.
POINTER = re.compile(r"22;[a-z-]*")
TITLE = "2;aisp: "  # begins the one title that an app gives its window
_STRING = re.compile(r"\x1b([\]PX^_])(.*?)(?:\x07|\x1b\\|\Z)", re.DOTALL)
_OUTSIDE = {
    "a C1 character": re.compile("[\x80-\x9f]"),
    "a bidirectional control": re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"),
    "a hidden character": re.compile("[\xad\u180e\u200b-\u200d\u2060\u3164\ufeff\U000e0000-\U000e007f]"),
    "a control character": re.compile("[\x00-\x07\x0b\x0c\x0e\x0f\x7f]"),
    "a question for the cursor": re.compile(r"\x1b\[\??6n"),
    "a question for the terminal": re.compile(r"\x1b\[>?0?[cq]|\x1b\[>0q"),
    "a reset": re.compile("\x1bc"),
    "the history wiped": re.compile(r"\x1b\[3J"),
}


def commands_in(raw: bytes) -> list[str]:
    """What in these bytes a terminal would obey and an app has no reason to write, each with what stands around it."""
    text = raw.decode("utf-8", "backslashreplace")
    found: list[str] = []
    for string in _STRING.finditer(text):
        kind, payload = string.groups()
        if kind == "]" and payload.startswith("52;c;"):
            with_controls = _copied(payload.removeprefix("52;c;"))
            if with_controls is None:
                continue
            payload = with_controls
        elif kind == "]" and (POINTER.fullmatch(payload) or (payload.startswith(TITLE) and not _obeyed(payload))):
            continue
        found.append(f"a string sequence ESC {kind}: {payload[:80]!r}")
    rest = _STRING.sub("", text)
    for name, pattern in _OUTSIDE.items():
        found += [f"{name}: {rest[max(0, at.start() - 60) : at.end() + 60]!r}" for at in pattern.finditer(rest)]
    return found


def _copied(payload: str) -> str | None:
    """What a copy would paste, where that is hostile or nobody's copy; None where it is ordinary text."""
    try:
        text = base64.b64decode(payload, validate=True).decode()
    except ValueError:  # no base64, or no text in it
        return payload
    return text if text == SIGN or _obeyed(text) else None


def _obeyed(text: str) -> bool:
    """Whether a terminal, or a shell that it is pasted into, would act upon any of this text."""
    return "\x1b" in text or any(pattern.search(text) for pattern in _OUTSIDE.values())


# -- a hostile world ---------------------------------------------------------------------------------------------------


def catalog(root: Path) -> Catalog:
    """The small catalogue with hostile titles, prose, summaries, problems and contents of files."""
    honest = counted_catalog(root)
    for target in honest.targets:
        for name in ("baseline.py", "optimized.py"):
            (target.folder / name).write_text(f"# {EVIL}\nNAME = '''{EVIL}'''\n", "utf-8", newline="")
    free = FREE - {"folder", "case", "files"}  # where the target lies and what is asked of it must be found
    targets = tuple(replace(poisoned(target, free), lesson=lesson()) for target in honest.targets)
    problems = tuple(
        replace(problem, path=Path("/home") / EVIL_NAME / "lesson.md", key=EVIL, message=EVIL, fix=EVIL)
        for problem in honest.problems
    )
    chapters = tuple(replace(chapter, title=EVIL, readme=lesson()) for chapter in honest.chapters)
    return replace(honest, chapters=chapters, targets=targets, problems=problems)


def lesson() -> str:
    """Prose in which every kind of block is hostile."""
    quoted = "\n".join(f"- {text}" for text in TEXTS.values())
    blocks = (
        f"# {EVIL}",
        EVIL,
        quoted,
        f"> {EVIL}",
        f"```python\n{EVIL}\n```",
        f"| a | b |\n|---|---|\n| {EVIL} | x |",
    )
    return "\n\n".join((*blocks, LESSON))


def store(target: str) -> Run:
    """Results of a target with hostile reasons, names, paths, environments and files; returns the newest run."""
    fill_store(target)
    fill_roofs(GEMM, (1.0, 0.5))
    with Store.open(paths.database_file()) as database:
        environment = database.put_environment({"gpu": EVIL, "gpu_uuid": EVIL, "host": EVIL, "git": EVIL})
        snapshot = database.put_snapshot({"baseline.py": EVIL.encode(), "optimized.py": EVIL.encode() + b"\xff\x9b6n"})
        run = planned(target, environment=environment, snapshot=snapshot, manifest={"code": "c0de", "note": EVIL})
        run = poisoned(run, frozenset({"title", "folder", "case"}))
        database.plan([run])
        end: Run = poisoned(finished(run), frozenset({"flags", "reason", "detail", "note"}))
        end = replace(end, findings=(Finding("timing.wall_clock", "optimized", _passed(), EVIL),))
        database.finish(end, {arm.rung: samples_of(50) for arm in end.arms})
        database.put_peak(replace(poisoned(ceilings(), frozenset({"note", "gpu"})), gpu_uuid="GPU-2"))
    remember_fuzz(
        poisoned(fuzz_record(), frozenset({"notes", "title", "folder"})),
        poisoned(failure_record(), frozenset({"detail", "script", "region", "versions"})),
    )
    return end


def _passed() -> Any:
    from aisp.store.outcomes import FindingStatus

    return FindingStatus.PASSED


def stream() -> list[events.Event]:
    """Runs, a cheat, a watch, a fuzz, ceilings, banners and outputs, every free text of which is hostile."""
    found = heard.finding(check=EVIL, arm=EVIL, status="caught", evidence=EVIL)
    named = [
        planned_event("EVIL", "t:" + EVIL, rungs=["baseline", EVIL], device=EVIL, wall=EVIL, snapshot=EVIL),
        heard.state(run_id="EVIL", state="running", at_ns=10**12),
        heard.step(run_id="EVIL", name=EVIL, arm=EVIL, start_ns=10**12, duration_ms=1.0, detail=EVIL),
        batch_event("EVIL", EVIL, 10**12, 1.0),
        events.Output(run_id="EVIL", arm=EVIL, stream="stdout", lines=[EVIL, *TEXTS.values()]),
        heard.arm(run_id="EVIL", arm=EVIL, state="user_error", correctness="unknown", reason=EVIL, detail=EVIL),
        heard.comparison(run_id="EVIL", rung=EVIL, baseline=EVIL, verdict="none", note=EVIL),
        heard.finished(
            run_id="EVIL", target="t:" + EVIL, state="user_error", duration_ms=1.0, reason=EVIL, findings=[found]
        ),
    ]  # fmt: skip
    told = [
        *quick_run_events("ch05:collate", run_id="01I"),
        *cheat_run_events("01T", target="ch07:transpose"),
        *watch_events("ch05:collate"),
        *fuzz_events("01F1", finished=False),
        failure_event("01X2"),
        *peak_events(),
        events.LogLine(level="warning", text=EVIL),
        events.Banner(key="k", text=EVIL, severity="error"),
    ]
    return numbered(heard.whole([*named, *(poisoned(event) for event in told)]))


def link() -> FakeLink:
    """That stream, an engine's log and a status, all hostile."""
    refused = events.Reply(to=1, error=EVIL)
    made = FakeLink(stream(), replies={requests.StartRuns: refused, requests.StartWatch: refused})
    made.engine_log = [EVIL, *TEXTS.values()]
    made.engine_status = status_event(
        gpu_note=EVIL,
        devices=[events.Device(index=0, name=EVIL, uuid="GPU-2", driver=EVIL, note=EVIL)],
        queue=[queue_item("Q", EVIL)],
        watches=[events.WatchItem(target=EVIL, folder=EVIL, edits=1)],
    )
    return made


# -- the tour ----------------------------------------------------------------------------------------------------------


def problems(root: Path) -> Path:
    """A folder of a problem in a format of others, with hostile names."""
    level = root / EVIL_NAME / "level1"
    level.mkdir(parents=True)
    (level / f"12_{EVIL_NAME}.py").write_text(kernelbench.MATMUL)
    return root / EVIL_NAME


def stops(run_id: str, others: Path) -> list[tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Every screen with arguments, and the keys that show more of it."""
    target = "ch07:transpose"
    return [
        ("home", {}, ("j", "j", "j", "j")),
        ("lesson", {"target_id": target}, ("tab", "j", "tab")),
        ("diff", {"target_id": target}, ("j", "n")),
        ("history", {"target_id": target}, ("j", "k")),
        ("run", {"run_id": "EVIL"}, ("o", "s", "y")),
        ("run", {"run_id": "01T"}, ("o", "s", "r")),
        ("run", {"run_id": run_id}, ("o",)),
        ("roofline", {"target_id": GEMM}, ("j",)),
        ("trust", {"target_id": target, "run_id": "01T"}, ("j", "tab", "j")),
        ("trust", {"target_id": target, "run_id": run_id}, ("j",)),
        ("checks", {"run_id": "EVIL"}, ("j", "enter", "j")),
        ("fuzz", {"target_id": target}, ("j", "tab", "j", "tab", "j")),
        ("ceilings", {}, ("j",)),
        ("watch", {"target_id": "ch05:collate"}, ("j", "k", "m", "y")),
        ("jobs", {}, ("j", "j")),
        ("problems", {"folder": others}, ("j", "y")),
        ("lessons", {}, ("j", "s", "o")),
        ("suite", {"suite": "all"}, ("j", "s", "right_square_bracket")),
        ("compare", {"a": "01T", "b": run_id}, ("j", "tab", "j")),
        ("jump", {}, ()),
        ("enginelog", {}, ("j", "y")),
        ("help", {}, ("j",)),
    ]


def dialogs() -> dict[str, Screen[Any]]:
    """The questions that screens ask, about hostile things."""
    from aisp.tui.screens.confirm import ConfirmScreen
    from aisp.tui.screens.picker import PickerScreen

    return {"confirm": ConfirmScreen(EVIL, EVIL), "picker": PickerScreen(EVIL, [("a", EVIL), ("b", "plain")], "a")}


async def tour(root: Path, log: Path) -> None:
    """Open every screen over a hostile world, drawn by the driver that a person has."""
    from aisp.tui.app import Workbench
    from aisp.tui.driver import BackloggedDriver
    from tests.tui.app_support import screen_text, until

    run = store("ch07:transpose")
    app = Workbench(
        link=link(),  # type: ignore[arg-type]
        catalog=catalog(root / EVIL_NAME),
        settings=Settings(graph="braille"),
        driver_class=BackloggedDriver,
    )

    async def visit(pilot: Any) -> None:
        await until(pilot, lambda: app.model.status is not None)
        with log.open("w", encoding="ascii") as told:
            for name, arguments, keys in stops(run.id, problems(root / "others")):
                if name in ("help", "jump"):
                    app.open_over(name)
                elif name != "home":
                    app.open_screen(name, **arguments)
                await pilot.pause(0.12)
                drawn = screen_text(app)
                for key in keys:
                    await pilot.press(key)
                    await pilot.pause(0.01)
                    drawn += screen_text(app)
                line = {"screen": name, "expected": SCREENS[name].class_name, "top": type(app.screen).__name__}
                told.write(json.dumps({**line, "drawn": drawn}) + "\n")
                while len(app.screen_stack) > 2:
                    app.pop_screen()
            for name, screen in dialogs().items():
                app.push_screen(screen)
                await pilot.pause(0.1)
                line = {"screen": name, "expected": type(screen).__name__, "top": type(app.screen).__name__}
                told.write(json.dumps({**line, "drawn": screen_text(app)}) + "\n")
                app.pop_screen()
            app.action_command_palette()
            await pilot.press(*"lesson ch05")
            await until(pilot, lambda: "Lesson ch05" in screen_text(app))  # with titles as help
            line = {"screen": "palette", "expected": "CommandPalette", "top": type(app.screen).__name__}
            told.write(json.dumps({**line, "drawn": screen_text(app)}) + "\n")
        app.exit(return_code=0)

    await app.run_async(auto_pilot=visit)
    if app.return_code:
        sys.exit(app.return_code)


if __name__ == "__main__":
    os.environ.pop("NO_COLOR", None)
    asyncio.run(tour(Path(sys.argv[1]), Path(sys.argv[2])))
