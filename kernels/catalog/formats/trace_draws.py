"""Operators that draw tokens at random: how their draws are judged, and on what.

No token is the right one, so the benchmark's own rule is the judge (`rule`), asked in the verifier alone:

- **Each draw**: a token that is there, has a probability, and that `top_k` and `top_p` leave, within the benchmark's
  own margin.
- **Many draws** from one distribution: tokens come as often as in draws of the reference, by a chi-square test of two
  samples that an honest solution fails once in a million. The reference says what is right, since it alone decides
  which filter is applied first and what is normalised between them.
- **Seeds**: behind another seed come other draws.

Two cases that are not timed (`CASES`) have rows of one and the same distribution, few of whose tokens are likely: as
many draws in a call as there are rows. Every call of a run stands behind a seed of its set, so that a call that is
repeated draws the same: a solution takes its random numbers from PyTorch's generator.
"""

from __future__ import annotations

from collections.abc import Mapping

from .trace_definition import PROBABILITIES

SEED = "aisp_seed"
SEED_LINE = "int64 [1] integers(0, 2147483648) cpu"
FILTERS = ("top_k", "top_p")
CASES = ("draws", "draws-again")
RULE = "tokens that the filters leave, as often as the reference draws them"
MOST_ELEMENTS = 2**25  # of the probabilities in one of CASES
MOST_ROWS = 1024
FEWEST_ROWS = 64


def rows(tokens: int) -> int:
    """Draws in a call of one of CASES."""
    return max(FEWEST_ROWS, min(MOST_ROWS, MOST_ELEMENTS // max(1, tokens)))


def note(*, counted: bool) -> str:
    """What a person should know before a verdict; `counted`: there are CASES."""
    said = (
        "it draws at random: every call stands behind a seed of its set, from which PyTorch's random numbers follow; a "
        "solution with a generator of its own draws otherwise when it is timed, and is refused for that"
    )
    if counted:
        return f"{said}; in the cases {' and '.join(CASES)} its draws are counted"
    return (
        f"{said}; {PROBABILITIES} has a fixed number of rows, so that draws are looked at one by one, and not counted"
    )


OFTEN = f'''

def often(shapes):
    """Rows of one distribution, the same behind every seed: a dozen tokens are likely, each less than the last one."""
    generator = torch.Generator().manual_seed(0)
    found = {{}}
    for name, shape in shapes.items():
        dtype = getattr(torch, DTYPES[name])
        if name == "{PROBABILITIES}":
            tokens = shape[-1]
            few = min(12, tokens)
            row = torch.full((tokens,), 0.03 / tokens)
            likely = 0.7 ** torch.arange(few)
            row[torch.randperm(tokens, generator=generator)[:few]] += 0.97 * likely / likely.sum()
            found[name] = row.to(dtype).expand(shape).contiguous()
        elif name in ("top_k", "top_p"):  # each leaves out some of the dozen
            found[name] = torch.full(shape, 10 if name == "top_k" else 0.9).to(dtype)
        else:
            one = draw(*DRAWS[name], (1, *shape[1:]), dtype, generator)
            found[name] = one.expand(shape).contiguous() if shape else one.reshape(())
    return found
'''


def rule(name: str, filters: Mapping[str, str], given: str) -> str:
    """rule.py.

    Args:
        name: what it is called.
        filters: the code of those of FILTERS that the definition has.
        given: the code of the arguments of the definition's run().
    """
    coded = ", ".join(f"{key!r}: {code}" for key, code in filters.items())
    return f'"""{name}.\n"""\n{_RULE.replace("FILTERS_OF", f"{{{coded}}}").replace("GIVEN", given)}'


_RULE = f'''
import math

import torch

import aisp_calls
import aisp_definition

MARGIN = 0.05  # of the share that top_p keeps: sums are rounded
ENOUGH = {FEWEST_ROWS}  # rows of one distribution whose draws are counted
TIMES = 4  # as many draws of the reference for each of a solution's
FEWEST = 5  # draws that a token, or all rare ones together, must have to be compared
CHANCE = 1e-6  # of an honest solution to be told wrong

drawn = {{}}  # by distribution: how often the reference draws each token
behind = {{}}  # by distribution and draws: the seed


def reference(inputs):
    """Its draws."""
    return aisp_calls.returned(aisp_definition.run(GIVEN))


def filters(inputs):
    """What leaves tokens out."""
    return FILTERS_OF


def judge(inputs, outputs, expected):
    """None where the draws are right, else what is wrong."""
    probs, found, wanted = inputs["{PROBABILITIES}"], outputs[0], expected[0]
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        forms = [f"{{each.dtype}} {{list(each.shape)}}" for each in (found, wanted)]
        return f"it returned {{forms[0]}}, and the reference returns {{forms[1]}}"
    probs = probs.reshape(-1, probs.shape[-1])
    tokens = found.reshape(-1).to(probs.device, torch.int64)
    outside = tokens[(tokens < 0) | (tokens >= probs.shape[1])]
    if outside.numel():
        return f"it drew the token {{int(outside[0])}} of {{probs.shape[1]}}"
    left = allowed(probs, filters(inputs))
    rows = torch.arange(tokens.numel(), device=probs.device) % probs.shape[0]
    wrong = (~left[rows, tokens]).nonzero()
    if wrong.numel():
        place = int(wrong[0])
        token, chance = int(tokens[place]), float(probs[rows[place], tokens[place]])
        return f"draw {{place}} is the token {{token}} of probability {{chance:.3g}}, which is left out"
    if tokens.numel() < ENOUGH or not bool((probs == probs[:1]).all()):
        return None
    return of_many(inputs, probs, left, tokens)


def allowed(probs, given):
    """Which tokens may be drawn: of equal ones at the edge of top_k all, and some more than top_p says."""
    left = probs > 0
    ordered, places = probs.sort(dim=-1, descending=True)
    for name, value in given.items():
        value = torch.as_tensor(value, device=probs.device).reshape(-1, 1).expand(probs.shape[0], 1)
        if name == "top_k":
            edge = ordered.gather(1, (value.long() - 1).clamp(0, probs.shape[1] - 1))
            left &= (probs >= edge) | (value <= 0)
        else:
            before = ordered.cumsum(-1) - ordered
            kept = (before <= value + MARGIN) | (value <= 0) | (value >= 1)
            left &= torch.zeros_like(left).scatter(1, places, kept)
    return left


def of_many(inputs, probs, left, tokens):
    """The same of draws from one distribution."""
    given = [torch.as_tensor(value).tolist() for value in filters(inputs).values()]
    key = (tokens.numel(), repr(given), probs[0].cpu().double().numpy().tobytes())
    seed = int(inputs["{SEED}"])
    share = probs * left
    share /= share.sum(-1, keepdim=True)
    alike = float(share.square().sum(-1).log10().sum()) * tokens.numel() / probs.shape[0]
    before = behind.setdefault((key, tuple(tokens.tolist())), seed)
    if before != seed and alike < math.log10(CHANCE):  # of two honest calls to draw the same
        return "behind another seed it drew the same tokens"
    if key not in drawn:
        with torch.random.fork_rng([probs.device] if probs.is_cuda else []):
            calls = []
            for number in range(TIMES):
                torch.manual_seed(2**32 + number)  # behind which no set stands
                calls.append(reference(inputs).reshape(-1).to(probs.device, torch.int64))
        drawn[key] = torch.bincount(torch.cat(calls), minlength=probs.shape[1]).double()
    theirs, ours = drawn[key], torch.bincount(tokens, minlength=probs.shape[1]).double()
    chance = likelihood(theirs, ours)
    if chance >= CHANCE:
        return None
    apart = 0.5 * float((theirs / theirs.sum() - ours / ours.sum()).abs().sum())
    counts = f"{{tokens.numel()}} draws against {{int(theirs.sum())}} of the reference"
    return f"it draws tokens of one distribution otherwise: a total variation of {{apart:.3f}} in {{counts}}"


def likelihood(theirs, ours):
    """Of two samples of one distribution to differ at least as much as these counts: a chi-square test. Rare tokens are
    counted together."""
    total = theirs + ours
    share = ours.sum() / total.sum()
    often = total * share >= FEWEST
    pairs = [torch.cat((each[often], each[~often].sum()[None])) for each in (theirs, ours)]
    both = pairs[0] + pairs[1]
    pairs = [each[both > 0] for each in pairs]
    both = both[both > 0]
    if both.numel() < 2:
        return 1.0
    apart = sum(
        ((each - both * part).square() / (both * part)).sum() for each, part in zip(pairs, (1 - share, share))
    )
    return float(torch.special.gammaincc(torch.tensor((both.numel() - 1) / 2.0).double(), apart.cpu() / 2))
'''
