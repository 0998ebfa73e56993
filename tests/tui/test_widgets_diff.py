"""The diff: an alignment that loses no line, and a view of it by keys and signs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from aisp.tui import themes
from aisp.tui.widgets import alignment
from aisp.tui.widgets.alignment import Row, align, changed_parts, hunks_of, matching_blocks, split_lines
from aisp.tui.widgets.diffview import DiffView, compare, highlight
from aisp.tui.widgets.glyphs import GraphStyle

LEFT = "import torch\n\n\ndef run(x):\n    y = x * 2\n    return y\n\n\nprint(1)\n"
RIGHT = "import torch\n\n\ndef run(x):\n    y = x * 3\n    y += 1\n    return y\n\n\nprint(1)\n"


class DiffApp(App[None]):
    """One diff that fills the screen; keeps what it copies and says."""

    def __init__(self, style: GraphStyle = GraphStyle.BRAILLE) -> None:
        super().__init__()
        themes.register(self)
        self.theme = "aisp-dark"
        self.view = DiffView()
        self.view._chosen_style = style
        self.ready = 0
        self.copied: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def on_diff_view_ready(self, message: DiffView.Ready) -> None:
        self.ready += 1

    def on_diff_view_copied(self, message: DiffView.Copied) -> None:
        self.copied.append(message.text)


async def shown(app: DiffApp, pilot: Any, left: str, right: str, **options: str) -> None:
    app.view.show(left, right, **{"left_title": "baseline.py", "right_title": "optimized.py", **options})
    await app.workers.wait_for_complete()
    await pilot.pause()
    assert app.view.ready


def layout(view: DiffView) -> str:
    return "unified" if view.unified else "side by side"


def drawn(view: DiffView) -> list[str]:
    return [view.render_line(y).text for y in range(view.size.height)]


# -- alignment ---------------------------------------------------------------------------------------------


def check(left: list[str], right: list[str]) -> list[Row]:
    rows = align(left, right)
    assert [row.left for row in rows if row.left >= 0] == list(range(len(left)))
    assert [row.right for row in rows if row.right >= 0] == list(range(len(right)))
    assert all(left[row.left] == right[row.right] for row in rows if row.equal)
    assert all(row.left >= 0 or row.right >= 0 for row in rows)
    return rows


LINES = st.lists(st.sampled_from(["", "{", "}", "a = 1", "a = 2", "b = a", "return b"]), max_size=40)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_every_line_stands_exactly_once_in_order(left: list[str], right: list[str]) -> None:
    check(left, right)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES)
def test_long_files_lose_no_line_either(left: list[str], right: list[str]) -> None:
    # With the limits of a long file, small examples take its ways too.
    exact, alignment._EXACT_PRODUCT = alignment._EXACT_PRODUCT, 4
    try:
        check(left, right)
    finally:
        alignment._EXACT_PRODUCT = exact


def test_a_change_a_removal_and_an_addition() -> None:
    rows = check(["a", "x = f(1)", "b", "gone", "c"], ["a", "x = f(2)", "b", "c", "new"])
    assert rows == [
        Row(0, 0, True, False),
        Row(1, 1, False, True),
        Row(2, 2, True, False),
        Row(3, -1, False, False),
        Row(4, 3, True, False),
        Row(-1, 4, False, False),
    ]
    assert hunks_of(rows) == [(1, 2), (3, 4), (5, 6)]


def test_resembling_lines_stand_side_by_side_whatever_comes_between() -> None:
    rows = check(["total = price * count"], ["# a note", "log(start)", "total = price * count + tax"])
    assert rows[-1] == Row(0, 2, False, True)
    assert [row.left for row in rows[:2]] == [-1, -1]


def test_three_thousand_lines_that_repeat_are_aligned_with_the_fewest_changes() -> None:
    left = ["{", "a;", "}", ""] * 750
    chooser = random.Random(5)
    right = list(left)
    for _ in range(60):
        del right[chooser.randrange(len(right))]
    rows = check(left, right)
    assert sum(1 for row in rows if not row.equal) == 60


def test_three_thousand_lines_with_edits_all_over() -> None:
    left = [f"line_{n % 700} = {n}" if n % 3 else "" for n in range(3000)]
    right = [line + "  # edited" if n % 50 == 1 and line else line for n, line in enumerate(left)]
    rows = check(left, right)
    edited = sum(1 for a, b in zip(left, right, strict=True) if a != b)
    assert sum(1 for row in rows if not row.equal) == edited
    assert all(row.alike for row in rows if not row.equal)


def test_a_block_moved_far_away_is_no_reason_to_lose_the_rest() -> None:
    left = [f"line {n}" for n in range(1000)]
    right = left[10:] + left[:10]
    assert sum(block.size for block in matching_blocks(left, right)) == 990


def test_changed_words_are_marked_whole() -> None:
    assert changed_parts("y = alpha * 2", "y = beta * 2") == ([(4, 9)], [(4, 8)])
    assert changed_parts("f(a)", "f(a, b)") == ([], [(3, 6)])
    assert changed_parts("same", "same") == ([], [])
    long = "word " * 1000
    assert changed_parts(long + "x end", long + "yy end") == ([(5000, 5001)], [(5000, 5002)])


def test_line_ends_of_either_kind_make_lines() -> None:
    assert split_lines("a\r\nb\nc") == ["a", "b", "c"]
    assert split_lines("a\n") == ["a"]
    assert split_lines("\n") == [""]
    assert split_lines("") == []


@pytest.mark.parametrize(
    ("left", "right", "note"),
    [
        ("", "", "both files are empty"),
        ("a\n", "a\n", "the files are identical (1 line)"),
        ("a\nb\n", "a\nb\n", "the files are identical (2 lines)"),
        ("a\nb", "a\nb\n", "the files differ only in how their lines end (2 lines)"),
        ("a\r\n", "a\n", "the files differ only in how their lines end (1 line)"),
        ("", "a\n", ""),
        ("a\n", "b\n", ""),
    ],
)
def test_what_there_is_nothing_to_see_of_is_said_in_words(left: str, right: str, note: str) -> None:
    assert compare(left, right).note == note


def test_highlighting_keeps_the_text_and_knows_three_languages() -> None:
    python = ["def run(x):  # fast", '    """Two', '    lines."""', "    return 'a' + str(1)", ""]
    runs = highlight(python, "python")
    assert ["".join(text for _, text in line) for line in runs] == python
    assert ("keyword", "def") in runs[0] and ("comment", "# fast") in runs[0]
    assert runs[2][0][0] == "comment"  # a docstring goes on over lines
    assert ("number", "1") in runs[3]
    cuda = ["__global__ void run(float* x) {", "  x[threadIdx.x] = 1.0f;", "}"]
    assert any(kind == "keyword" for kind, _ in highlight(cuda, "cuda")[0])
    assert highlight(["# Title"], "markdown") == [[("keyword", "# Title")]]
    assert highlight(["as it is"], "no such language") == [[("", "as it is")]]
    assert highlight([], "python") == []


# -- the view ----------------------------------------------------------------------------------------------


async def test_side_by_side_at_a_wide_terminal() -> None:
    app = DiffApp()
    async with app.run_test(size=(101, 12)) as pilot:
        await shown(app, pilot, LEFT, RIGHT)
        assert [line.rstrip() for line in drawn(app.view)] == [
            " baseline.py                                        optimized.py                     1 change  −1 +2",
            "  1   import torch                                │  1   import torch",
            "  2                                               │  2",
            "  3                                               │  3",
            "  4   def run(x):                                 │  4   def run(x):",
            "  5 ~     y = x * 2                               │  5 ~     y = x * 3",
            "                                                  │  6 +     y += 1",
            "  6       return y                                │  7       return y",
            "  7                                               │  8",
            "  8                                               │  9",
            "  9   print(1)                                    │ 10   print(1)",
            "",
        ]
        assert (app.view.hunks, app.view._current, app.ready) == (1, 0, 1)


async def test_unified_by_itself_at_eighty_columns() -> None:
    app = DiffApp()
    async with app.run_test(size=(80, 20)) as pilot:
        await shown(app, pilot, LEFT, RIGHT)
        assert layout(app.view) == "unified"
        assert [line.rstrip() for line in drawn(app.view)][:13] == [
            " − baseline.py + optimized.py                                   1 change  −1 +2",
            "  1  1   import torch",
            "  2  2",
            "  3  3",
            "  4  4   def run(x):",
            "  5    -     y = x * 2",
            "     5 +     y = x * 3",
            "     6 +     y += 1",
            "  6  7       return y",
            "  7  8",
            "  8  9",
            "  9 10   print(1)",
            "",
        ]


async def test_a_tiny_terminal_still_shows_signs_and_text() -> None:
    app = DiffApp(GraphStyle.ASCII)
    async with app.run_test(size=(40, 8)) as pilot:
        await shown(app, pilot, "漢字 = 1\n", "漢字 = 2\n")
        lines = drawn(app.view)
        assert lines[1].rstrip() == " 1   - 漢字 = 1"
        assert lines[2].rstrip() == "   1 + 漢字 = 2"
        assert [cell_len(line) for line in lines] == [40] * 8


@pytest.mark.parametrize("size", [(20, 5), (40, 8), (80, 20), (100, 24), (200, 30)])
async def test_every_line_fills_the_width_exactly(size: tuple[int, int]) -> None:
    app = DiffApp()
    async with app.run_test(size=size) as pilot:
        wide = "x = '漢字かな交じり文 🚀🚀'  # " + "long " * 60 + "\n\ttab\n"
        await shown(app, pilot, wide + LEFT, wide.replace("long", "very long") + RIGHT)
        for keys in ((), ("l", "l"), ("u",), ("l",), ("c",)):
            await pilot.press(*keys)
            await pilot.pause()
            assert [cell_len(line) for line in drawn(app.view)] == [size[0]] * size[1]


def numbered(changes: dict[int, str], count: int = 200) -> str:
    return "".join(changes.get(n, f"line {n}") + "\n" for n in range(1, count + 1))


async def test_n_and_N_go_from_change_to_change_and_say_when_there_is_none() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, numbered({}), numbered({50: "line fifty", 120: "x", 198: "y"}))
        assert app.view.hunks == 3
        await pilot.press("n")
        assert app.view._current == 1
        assert any(line.startswith("▌ 50 ~ line 50") for line in drawn(app.view))
        await pilot.press("n", "n")
        assert app.view._current == 3
        assert any("198 + y" in line for line in drawn(app.view))
        await pilot.press("n")
        assert app.view._current == 3
        await pilot.press("N", "N")
        assert app.view._current == 1
        assert "1/3 changes" in drawn(app.view)[0]


async def test_n_goes_on_from_what_is_in_sight() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, numbered({}), numbered({10: "a", 100: "b", 190: "c"}))
        await pilot.press("n", "G")
        await pilot.pause()
        await pilot.press("N")
        assert app.view._current == 3
        await pilot.press("g")
        await pilot.pause()
        await pilot.press("n")
        assert app.view._current == 1


async def test_changes_only_folds_equal_lines_and_says_how_many() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(app, pilot, numbered({}), numbered({50: "fifty", 120: "x"}))
        await pilot.press("c")
        lines = [line.rstrip() for line in drawn(app.view)]
        assert lines[0].endswith("−2 +2  folded")
        assert lines[1] == "    ⋯ 46 equal lines"
        assert lines[2].startswith("  47   line 47")
        assert [line for line in lines if "equal lines" in line] == [
            "    ⋯ 46 equal lines",
            "    ⋯ 63 equal lines",
            "    ⋯ 77 equal lines",
        ]
        await pilot.press("n", "n")
        assert any("120 + x" in line for line in drawn(app.view))
        await pilot.press("c")
        assert not any("equal lines" in line for line in drawn(app.view))
        assert any("120 + x" in line for line in drawn(app.view))


async def test_u_changes_the_layout_and_stays_at_the_place() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, numbered({}), numbered({100: "line hundred"}))
        await pilot.press("n", "u")
        await pilot.pause()
        lines = drawn(app.view)
        assert layout(app.view) == "unified"
        assert any(line.startswith("▌100     - line 100") for line in lines)
        assert any(line.startswith("▌    100 + line hundred") for line in lines)
        await pilot.press("u")
        assert layout(app.view) == "side by side"
        assert any("100 ~ line hundred" in line for line in drawn(app.view))


async def test_crossing_a_hundred_columns_changes_the_layout_at_the_same_lines() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, numbered({}), numbered({3: "three"}))
        await pilot.press(*["ctrl+d"] * 5)
        await pilot.pause()
        first = drawn(app.view)[1].split()[1:3]
        await pilot.resize_terminal(80, 20)
        await pilot.pause()
        assert layout(app.view) == "unified"
        assert drawn(app.view)[1].split()[2:4] == first


async def test_scrolling_keys() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 21)) as pilot:
        await shown(app, pilot, numbered({}), numbered({}))
        for key, first in (("j", 2), ("j", 3), ("k", 2), ("ctrl+d", 11), ("ctrl+u", 2), ("G", 181), ("g", 1)):
            await pilot.press(key)
            await pilot.pause()
            assert drawn(app.view)[1].split()[0] == str(first), key
        assert "identical" in drawn(app.view)[0]


@pytest.mark.parametrize("size", [(60, 12), (100, 12), (160, 12)])
async def test_what_changed_far_to_the_right_is_in_sight_at_every_width(size: tuple[int, int]) -> None:
    line = "    return torch.stack([torch.softmax(logits(request, first_weights, second_weights), dim=0) for "
    app = DiffApp()
    async with app.run_test(size=size) as pilot:
        await shown(
            app, pilot, f"{line}request in x])\n" + "pass\n" * 9, f"{line}request in reversed(x)])\n" + "pass\n" * 9
        )
        whole = "".join("".join(line.split()) for line in drawn(app.view)).replace("│", "")
        assert "reversed(x)])" in whole or "rsed(x)])" in whole
        assert " 1 " in drawn(app.view)[1]
        assert not drawn(app.view)[2][:5].strip(), "a line that goes on has no number"
        await pilot.press("j", "n")
        assert drawn(app.view)[1].startswith("▌")
        app.view.find("reversed")
        assert app.view.match_told == "1 of 1"


@pytest.mark.parametrize("size", [(80, 12), (160, 12)])
async def test_no_part_of_a_wrapped_line_lies_under_the_scrollbar(size: tuple[int, int]) -> None:
    line = "".join(chr(ord("a") + number % 26) for number in range(150))
    app = DiffApp()
    async with app.run_test(size=size) as pilot:
        await shown(app, pilot, f"{line}\n" + "pass\n" * 40, f"{line}z\n" + "pass\n" * 40)
        await pilot.pause()
        seen = [row[: app.view.inner_width] for row in drawn(app.view)]
        assert app.view.scrollbar_gutter.width == 1
        left = "".join(row[: len(row) // 2] if size[0] > 80 else row for row in seen[1:])
        assert line in "".join(filter(str.isalpha, left))


async def test_another_width_wraps_anew_and_stays_at_the_line() -> None:
    app = DiffApp()
    async with app.run_test(size=(160, 12)) as pilot:
        await shown(app, pilot, numbered({7: "x " * 60}), numbered({7: "x " * 59 + "y"}))
        await pilot.press(*["j"] * 8)
        await pilot.pause()
        first = drawn(app.view)[1].split()[0]
        await pilot.resize_terminal(110, 12)
        await pilot.pause()
        assert drawn(app.view)[1].split()[0] == first


async def test_y_hands_the_hunk_over_once_as_lines_with_signs() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, LEFT, RIGHT)
        assert app.view.hunk_text(2) == ""
        await pilot.press("y")
        await pilot.pause()
        expected = "-    y = x * 2\n+    y = x * 3\n+    y += 1\n"
        assert app.copied == [expected]


async def test_y_without_a_change_copies_nothing() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 20)) as pilot:
        await shown(app, pilot, "a\n", "a\n")
        await pilot.press("y", "n", "N")
        await pilot.pause()
        assert app.copied == []


async def test_empty_and_identical_files_are_said_in_words() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 10)) as pilot:
        await shown(app, pilot, "", "")
        assert drawn(app.view)[1].rstrip() == " both files are empty"
        await shown(app, pilot, "a\n", "a\n")
        lines = drawn(app.view)
        assert "identical" in lines[0] and lines[1].split()[:2] == ["1", "a"]
        await pilot.press("c")
        assert drawn(app.view)[1].rstrip() == " the files are identical (1 line); c shows them"
        await pilot.press("c")
        await shown(app, pilot, "", "new\n")
        lines = drawn(app.view)
        assert "baseline.py (empty)" in lines[0]
        assert lines[1].rstrip().endswith("1 + new")


async def test_the_last_pair_of_texts_wins() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 10)) as pilot:
        app.view.show(numbered({}, 3000), numbered({5: "x"}, 3000), left_title="old", right_title="old")
        await shown(app, pilot, "a\n", "b\n", left_title="new l", right_title="new r")
        await pilot.pause()
        lines = drawn(app.view)
        assert "new l" in lines[0] and "new r" in lines[0]
        assert lines[1].split() == ["1", "-", "a", "│", "1", "+", "b"]


async def test_three_thousand_lines_build_only_those_in_sight(monkeypatch: pytest.MonkeyPatch) -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 24)) as pilot:
        await shown(app, pilot, numbered({}, 3000), numbered({1500: "x"}, 3000))
        built: list[int] = []
        original = app.view.render_line

        def render_line(y: int) -> Any:
            built.append(y)
            return original(y)

        monkeypatch.setattr(app.view, "render_line", render_line)
        await pilot.press("n")
        await pilot.pause()
        assert any("1500 + x" in line for line in drawn(app.view))
        assert len(built) < 24 * 6
        assert len(app.view._sides) < 24 * 2 * 4


async def test_changed_words_carry_a_mark_and_colour_comes_from_the_theme() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 10)) as pilot:
        await shown(app, pilot, "y = alpha * 2\n", "y = beta * 2\n")
        marked = [s for s in app.view.render_line(1) if s.style and s.text in ("alpha", "beta")]
        assert [s.text for s in marked] == ["alpha", "beta"]
        assert all(s.style is not None and s.style.bold for s in marked)
        backs = [s.style.bgcolor.name for s in marked if s.style and s.style.bgcolor]
        assert backs == ["#7a303b", "#235c37"]
        app.theme = "aisp-light"
        await pilot.pause()
        marked = [s for s in app.view.render_line(1) if s.style and s.text in ("alpha", "beta")]
        backs = [s.style.bgcolor.name for s in marked if s.style and s.style.bgcolor]
        assert backs == ["#f3b6b2", "#a9dfb1"]


@pytest.mark.slow
async def test_without_colour_changed_words_are_underlined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = DiffApp()
    async with app.run_test(size=(120, 10)) as pilot:
        await pilot.pause()
        await shown(app, pilot, "y = alpha * 2\n", "y = beta * 2\n")
        marked = [s for s in app.view.render_line(1) if s.text in ("alpha", "beta")]
        assert len(marked) == 2
        assert all(s.style is not None and s.style.underline for s in marked)
        assert all(s.style is not None for y in range(10) for s in app.view.render_line(y))


async def test_hostile_source_is_shown_and_not_obeyed() -> None:
    app = DiffApp()
    async with app.run_test(size=(120, 10)) as pilot:
        hostile = "a\x1b]52;c;AAAA\x07 [@click=app.quit]x[/]\n"
        await shown(app, pilot, hostile, "a\x9b2J\u202e\n", left_title="t\x1b[2J")
        text = "".join(drawn(app.view))
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
        assert "␛]52" in text and "[@click=app.quit]x[/]" in text


async def test_a_diff_shown_before_there_is_a_screen_appears_with_it() -> None:
    app = DiffApp()
    app.view.show("a\n", "b\n")
    async with app.run_test(size=(120, 10)) as pilot:
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert app.view.hunks == 1
