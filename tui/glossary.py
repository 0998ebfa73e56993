"""The words of the screens that a person may not know, each in a plain sentence or two. `?` shows them."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "rung": "One version of a lesson's kernel: the baseline, optimized, and others named after what they change.",
    "arm": "A rung as it takes part in one run.",
    "replica": "A fresh process in which a rung is timed: what one process makes of it by chance shows against others.",
    "quick, full": "A quick run has two replicas, for a first look; a full one takes as many as its verdict asks for.",
    "noise floor": "How far the baseline differs from itself in this run. A gain within it is none.",
    "twin, A/A": "The baseline timed a second time among the others: it gives the noise floor. In the gallery of "
    "cheats, the honest kernel that looks like the cheat.",
    "speed of light (SOL)": "The time that this GPU's ceilings allow at best; 50 % of SOL takes twice as long.",
    "cold": "The caches are emptied before each sample, as in a program that has worked on something else meanwhile.",
    "held-out inputs": "Inputs that a rung has not seen while it was timed. It must be right on them too.",
    "verdict": "Faster or slower: beyond the noise floor. Same: within it. Undecided: more replicas may tell. Suspect: "
    "a check doubts the times. Caught: a check refused them. Quarantine: caught before, and not changed since.",
}
