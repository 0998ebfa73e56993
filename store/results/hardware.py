"""What the hardware of a run is called, and whether a prediction or a person means it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from aisp.store.outcomes import Held

# What a name has beside the model: the maker, signs, how much memory of what kind, a rate, a count of cores.
_BESIDE_MODEL = re.compile(
    r"\((R|TM)\)|\b(NVIDIA|GeForce|Intel|AMD|CPU|Processor|\d+GB|HBM\w+|\d+-Core)\b|@.*", re.IGNORECASE
)


def ran_on(device: str, facts: Mapping[str, object]) -> str:
    """The hardware's name: the GPU's for a run on one, else the CPU's; "" where it is not known.

    Args:
        device: of the run.
        facts: its environment record, empty where that was not kept.
    """
    key = "gpu" if device.startswith("cuda") else "cpu"
    return str(facts.get(key) or ("" if key == "gpu" else "CPU"))


def confined(facts: Mapping[str, object]) -> str:
    """What the processes of a run were held from, "confined: files, reading"; and what not. "" where nobody noted it.

    Args:
        facts: the run's environment record.
    """
    noted = facts.get("confined")
    if not isinstance(noted, list):
        return ""
    holds = [one.value for one in Held if one in noted]
    lacks = [one.value for one in Held if one not in noted]
    if not holds:
        return "not confined: its processes could reach whatever this account can"
    return f"confined: {', '.join(holds)}" + (f"; not {', '.join(lacks)}" if lacks else "")


def names(device: str, facts: Mapping[str, object], *, on_host: bool) -> list[str]:
    """What a run's hardware is called, the best name first, its device last.

    A lesson of the host belongs to the whole machine: its GPU's name comes first. Any other that ran on the CPU says
    nothing of a GPU beside it.
    """
    found = [ran_on(device, facts) or device, device]
    return [str(facts["gpu"]), *found] if on_host and facts.get("gpu") else found


def is_meant(on: str, called: Iterable[str]) -> bool:
    """Whether hardware called so is what `on` means.

    The model stands in words with a digit ("H100" in "the host of an H100"); without one, `on` itself is looked for.
    """
    models = [word.strip(".,()").lower() for word in on.split() if any(sign.isdigit() for sign in word)]
    there = " ".join(called).lower()
    return all(word in there for word in models or [on.lower()])


def short(name: str) -> str:
    """The model in a name of hardware: "NVIDIA H100 80GB HBM3" -> "H100"; the name itself where there is no number."""
    left = " ".join(_BESIDE_MODEL.sub(" ", name).split())
    return left if any(sign.isdigit() for sign in left) else name


def machine(device: str, facts: Mapping[str, object]) -> str:
    """The model and the host of a run, "H100 · gpu-box"; what of it is known, and the device where nothing is."""
    parts = (short(ran_on(device, facts)) or device, str(facts.get("host") or ""))
    return " · ".join(part for part in parts if part)
