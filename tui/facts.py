"""The words of `aisp doctor`: what a check says (`Check`, `Health`), and where checks look (`Facts`, `run`)."""

from __future__ import annotations

import enum
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

COMMAND_PATIENCE_S = 3.0
CAP_SYS_ADMIN = 21


class Health(enum.StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"  # works, but less well than it could
    PROBLEM = "problem"  # something that aisp promises will not work
    UNKNOWN = "unknown"  # could not be found out


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: a stable id, a title, what was found, and the fix where one is needed."""

    id: str
    title: str
    verdict: Health
    value: str
    fix: str = ""


def check(
    id: str,
    title: str,
    value: str,
    fix: str = "",
    *,
    problem: bool = False,
    warning: bool = False,
    unknown: bool = False,
) -> Check:
    """A check that went as the first of these that is true says, well where none is; the fix stands where one is
    needed."""
    told = ((problem, Health.PROBLEM), (warning, Health.WARNING), (unknown, Health.UNKNOWN))
    health = next((health for is_so, health in told if is_so), Health.OK)
    return Check(id, title, health, value, fix if health is not Health.OK else "")


@dataclass(frozen=True, slots=True)
class Facts:
    """Where to look. `root` stands before /proc, /etc, /run and /var."""

    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    root: Path = Path("/")

    def text(self, path: str) -> str | None:
        """A small file's text, None where it cannot be read."""
        try:
            return (self.root / path).read_text("utf-8", "replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """A small file's number, None where there is none."""
        text = self.text(path)
        return int(text) if text and text.isdigit() else None

    def administrates(self) -> bool | None:
        """Whether this process has CAP_SYS_ADMIN on the host, None where that cannot be read.

        The NVIDIA driver asks for this and not for uid 0: root in a container mostly has not got it, nor has root
        of a user namespace, whose capabilities end at the namespace.
        """
        status = self.text("proc/self/status") or ""
        found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)$", status, re.MULTILINE)
        spans = self.text("proc/self/uid_map")
        if found is None or spans is None:
            return None
        return bool(int(found[1], 16) >> CAP_SYS_ADMIN & 1) and spans.split() == ["0", "0", "4294967295"]


def run(words: list[str], patience_s: float) -> str | None:
    """What a command prints, None where it is missing, fails or takes too long."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "backslashreplace").strip() if done.returncode == 0 else None


def tmux_clipboard(env: Mapping[str, str]) -> str | None:
    """The setting set-clipboard of the tmux that this runs in, None where there is none or it does not say."""
    return run(["tmux", "show", "-s", "-v", "set-clipboard"], COMMAND_PATIENCE_S) if env.get("TMUX") else None


def tmux_check(env: Mapping[str, str], setting: str | None) -> Check:
    """Whether tmux passes copies on to the terminal; `setting` is what `tmux_clipboard` says."""
    if not env.get("TMUX"):
        return check("clipboard", "copying", "through the terminal (OSC 52)")
    fix = "tmux set -s set-clipboard on, and the same line in ~/.tmux.conf; copies are kept in a file as well"
    on, unknown = setting == "on", setting is None
    value = "tmux passes it on (set-clipboard on)" if on else f"tmux drops it (set-clipboard {setting})"
    value = "tmux does not say" if unknown else value
    return check("clipboard", "copying", value, fix, warning=not on and not unknown, unknown=unknown)
