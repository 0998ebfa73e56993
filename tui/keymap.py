"""The keys that several screens share, in one table, and what is made of every key: bindings and names.

A screen declares its own keys with its class, as `Key`s; what opens it stands in its line of `tui.screens.SCREENS`.
`bind("run_quick", "diff", Key(...))` makes bindings of both, and the footer, the help panel and docs/keys.md are made
from those bindings, so they cannot tell anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.keys import Keys

from aisp.tui.screens import SCREENS


@dataclass(frozen=True, slots=True)
class Key:
    """One action and the keys that start it.

    Attributes:
        action: name of the screen's or app's `action_` method, with arguments where it takes any.
        keys: Textual key names, comma-separated; the first is shown in the footer.
        label: a word or two for the footer; "" keeps it out of the footer.
        sentence: what it does, for the help panel and the documentation.
        display: how the footer writes the key, where its name is not good enough.
        priority: whether it works even where the focused pane uses the key for itself.
    """

    action: str
    keys: str
    label: str
    sentence: str
    display: str = ""
    priority: bool = False


KEYS: Mapping[str, Key] = {
    # what opens a screen
    **{
        name: Key(f"open({name!r})", entry.keys, entry.label, entry.sentence, entry.display)
        for name, entry in SCREENS.items()
        if entry.keys
    },
    "run_trust": Key("open('trust')", "v", "trust",
        "Show whether this run may be believed: a naive harness's number, and every check."),
    # on every screen
    "back": Key("back", "escape,q", "back", "Go back to where you came from; leaves a zoomed pane first.", "esc"),
    "palette": Key("app.command_palette", "ctrl+p", "menu", "Find any command by a few letters.", "^p", priority=True),
    "zoom": Key("zoom", "z", "", "Give the focused pane the whole screen, and back."),
    "next_pane": Key("focus_next_pane", "tab", "", "Move to the next pane."),
    "previous_pane": Key("focus_previous_pane", "shift+tab", "", "Move to the pane before."),
    "copy": Key("copy", "y", "", "Copy what is highlighted: to the terminal's clipboard, and to a file."),
    "accept_installed": Key("accept_installed", "A", "",
        "Accept what appeared on the import path while a run went on, after a question: it was you."),
    "theme": Key("app.next_theme", "T", "", "Change to the next theme: dark, light, safe for colour-blind people."),
    "screenshot": Key("app.screenshot", "ctrl+s", "", "Save the screen as an SVG in the state folder."),
    "suspend": Key("app.suspend_process", "ctrl+z", "", "Go to the shell; `fg` comes back."),
    "quit": Key("quit", "ctrl+q", "quit", "Leave the app; runs and watches go on in the engine.", "^q"),
    # wherever a target is highlighted
    "run_quick": Key("run_quick", "r", "run", "Run the target quickly (two replicas) and watch it."),
    "run_full": Key("run_full", "R", "full", "Run the target in full: as many replicas as the verdict asks for."),
    "running": Key("open_running", "full_stop", "", "Open the target's run that is under way, or waits."),
    "cancel": Key("cancel", "x", "", "Cancel the target's planned or running run."),
    "edit": Key("edit", "e", "edit", "Open the rung's file in your editor; the app comes back when it ends."),
    # of several screens, or of one and the palette
    "measure": Key("measure", "r", "measure", "Measure the ceilings of this GPU once it is free."),
    "reload": Key("reload", "f5", "", "Read the catalogue and the last results again."),
}  # fmt: skip

EVERYWHERE = (
    "back", "help", "palette", "zoom", "copy", "jump", "jobs", "lessons",
    "suite", "enginelog", "accept_installed", "theme", "screenshot", "suspend", "next_pane", "previous_pane",
)  # fmt: skip
_FIRST = ("run_quick", "run_full", "cancel", "diff", "watch", "history", "trust", "edit", "roofline", "ceilings")
_NOT_OF_TARGETS = ("lesson", *EVERYWHERE)
# Where a target is highlighted: the footer shows as many as fit, in this order.
TARGET = (*_FIRST, "running", *(name for name in SCREENS if name in KEYS and name not in (*_FIRST, *_NOT_OF_TARGETS)))


def overrides(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What of a person's key map can be used, and in sentences what cannot: an action or a key that there is not, and
    a key that does something else on the same screen already.

    Args:
        given: keys as a person writes them, comma-separated, by the name of an action: the id of its bindings.

    Imports every screen.
    """
    import difflib  # with the screens: only where there is a key map

    maps = list(_maps())
    names = sorted({binding.id for bindings in maps for binding in bindings if binding.id})
    wanted: dict[str, str] = {}
    problems = []
    for name, keys in given.items():
        bad = [key for key in keys.split(",") if not _is_key(key.strip())]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=2, cutoff=0.4)
            hint = f"did you mean {' or '.join(near)}?" if near else "docs/keys.md has the names"
            problems.append(f"[keys] {name} is no action; {hint}")
        elif bad:
            problems.append(f"[keys] {name} = {keys!r}: there is no key {bad[0]!r}; write f9, ctrl+r, ? or the like")
        else:
            wanted[name] = ",".join(_long_name(key.strip()) for key in keys.split(","))
    for bindings in maps:
        taken: dict[str, str] = {}  # what the keys of this screen do, those that are not changed first
        for binding in bindings:
            if binding.id not in wanted:
                taken.setdefault(binding.key, binding.id or binding.description)
        own = {binding.id for binding in bindings}
        for name in [name for name in wanted if name in own]:
            new = wanted[name].split(",")
            other = next((taken[key] for key in new if taken.get(key, name) != name), "")
            if other:
                del wanted[name]
                problems.append(f"[keys] {name} = {given[name]!r}: that key is {other}'s already; choose another")
            else:
                taken |= dict.fromkeys(new, name)
    return wanted, problems


def _maps() -> Iterator[list[Binding]]:
    """The bindings that work side by side: of each screen, with those of a table and of the app."""
    from aisp.tui.app import Workbench
    from aisp.tui.widgets.table import LiveTable

    for entry in SCREENS.values():
        classes: list[type[DOMNode]] = [entry.load(), LiveTable, Workbench]
        yield [
            binding
            for one in classes
            for bindings in one._merge_bindings().key_to_bindings.values()
            for binding in bindings
            # What a table only passes on (enter) the screen makes something of.
            if not binding.system and not (one is LiveTable and binding.action == "choose")
        ]


def _long_name(key: str) -> str:
    """Textual's name of a key that a person writes: "?" -> "question_mark"."""
    *modifiers, name = key.split("+") if key != "+" and not key.endswith("++") else [*key[:-1].split("+")[:-1], "+"]
    names = {sign: name for name, sign in _NAMES.items()}
    return "+".join([*modifiers, names.get(name, name)])


def _is_key(key: str) -> bool:
    *modifiers, name = _long_name(key).split("+")
    known = {member.value for member in Keys} | _NAMES.keys()
    return set(modifiers) <= {"ctrl", "shift", "alt"} and (name in known or (len(name) == 1 and name.isprintable()))


def bindings_of(node: DOMNode) -> list[Binding]:
    """A node's bindings as they work: with the keys that a person gave them, in the order of their declaration."""
    bindings = node._bindings.copy()
    order = [binding.action for some in bindings.key_to_bindings.values() for binding in some]
    bindings.apply_keymap(node.app._keymap)
    found = [binding for some in bindings.key_to_bindings.values() for binding in some]
    return sorted(found, key=lambda binding: order.index(binding.action))


def bind(*keys: str | Key) -> list[BindingType]:
    """Bindings of keys in their order, each a name in KEYS or a Key; names may stand in a set (EVERYWHERE, TARGET)."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=bool(key.label),
            key_display=key.display or None,
            tooltip=key.sentence,
            priority=key.priority,
            id=key.action if isinstance(name, Key) else name,
        )
        for name in keys
        for key in [name if isinstance(name, Key) else KEYS[name]]
    ]


_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "minus": "-",
    "plus": "+",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "equals_sign": "=",
    "full_stop": ".",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "colon": ":",
    "pagedown": "page down",
    "pageup": "page up",
}


def key_names(keys: str) -> list[str]:
    """Textual's key names as a person writes them: "question_mark,ctrl+p" -> ["?", "ctrl+p"]."""
    out = []
    for key in keys.split(","):
        *modifiers, name = key.strip().split("+") if key.strip() != "+" else ["+"]
        out.append("+".join([*modifiers, _NAMES.get(name, name)]))
    return out
