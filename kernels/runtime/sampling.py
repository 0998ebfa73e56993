"""The rule for operators that draw tokens at random: no token is the right one, draws are looked at and counted.

    judged(...)    in the verifier: which tokens may be drawn, and how often each is
    often(...)     there too: the inputs of a case with many draws from one distribution

A count is right by a chi-square test of two samples, one of them the reference's, which alone says which filter is
applied first and what is normalised between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ..catalog.formats.trace_definition import PROBABILITIES
from ..catalog.formats.trace_draws import FEWEST_ROWS

MARGIN = 0.05
"""Of the share that top_p keeps: sums are rounded."""
TIMES = 4
"""As many draws of the reference for each of a solution's."""
FEWEST = 5
"""Draws that a token, or all rare ones together, must have to be compared."""
CHANCE = 1e-6
"""Of an honest solution to be called wrong."""
LIKELY = 12  # tokens of the distribution that is drawn from often

Key = tuple[int, str, bytes]
"""A distribution, by the number of draws, the filters and the probabilities."""

counts: dict[Key, torch.Tensor] = {}
"""How often the reference draws each token."""
behind: dict[tuple[Key, tuple[int, ...]], int] = {}
"""By distribution and draws: the seed."""


def often(name: str, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor | None:
    """The probabilities or a filter for rows of one distribution, the same behind every seed: a dozen tokens are
    likely, each less than the last one, and each filter leaves out some of them. None for any other input."""
    if name == PROBABILITIES:
        tokens = shape[-1]
        few = min(LIKELY, tokens)
        row = torch.full((tokens,), 0.03 / tokens)
        likely = 0.7 ** torch.arange(few)
        order = torch.randperm(tokens, generator=torch.Generator().manual_seed(0))
        row[order[:few]] += 0.97 * likely / likely.sum()
        return row.to(dtype).expand(tuple(shape)).contiguous()
    value = {"top_k": 10.0, "top_p": 0.9}.get(name)
    return None if value is None else torch.full(tuple(shape), value).to(dtype)


def judged(
    reference: Callable[[], torch.Tensor],
    probabilities: torch.Tensor,
    filters: Mapping[str, object],
    seed: int,
    outputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
) -> str | None:
    """What is wrong with draws; None for nothing.

    Args:
        reference: draws anew.
        probabilities: [..., tokens].
        filters: what leaves tokens out, of top_k and top_p.
        seed: behind which the draws are.
    """
    tensor, wanted = outputs[0], expected[0]
    if tensor.shape != wanted.shape or tensor.dtype != wanted.dtype:
        forms = [f"{each.dtype} {list(each.shape)}" for each in (tensor, wanted)]
        return f"it returned {forms[0]}, and the reference returns {forms[1]}"
    probs = probabilities.reshape(-1, probabilities.shape[-1])
    tokens = tensor.reshape(-1).to(probs.device, torch.int64)
    outside = tokens[(tokens < 0) | (tokens >= probs.shape[1])]
    if outside.numel():
        return f"it drew the token {int(outside[0])} of {probs.shape[1]}"
    left = allowed(probs, filters)
    rows = torch.arange(tokens.numel(), device=probs.device) % probs.shape[0]
    wrong = (~left[rows, tokens]).nonzero()
    if wrong.numel():
        place = int(wrong[0])
        token, chance = int(tokens[place]), float(probs[rows[place], tokens[place]])
        return f"draw {place} is the token {token} of probability {chance:.3g}, which is left out"
    if tokens.numel() < FEWEST_ROWS or not bool((probs == probs[:1]).all()):
        return None
    key = tokens.numel(), repr([torch.as_tensor(each).tolist() for each in filters.values()]), _bits(probs[0])
    return _of_many(reference, key, seed, probs * left, tokens)


def _bits(row: torch.Tensor) -> bytes:
    return row.cpu().double().numpy().tobytes()


def allowed(probs: torch.Tensor, filters: Mapping[str, object]) -> torch.Tensor:
    """Which tokens may be drawn, bool [rows, tokens]: of equal ones at the edge of top_k all, and some more than top_p
    says."""
    left = probs > 0
    ordered, places = probs.sort(dim=-1, descending=True)
    for name, each in filters.items():
        value = torch.as_tensor(each, device=probs.device).reshape(-1, 1).expand(probs.shape[0], 1)
        if name == "top_k":
            edge = ordered.gather(1, (value.long() - 1).clamp(0, probs.shape[1] - 1))
            left &= (probs >= edge) | (value <= 0)
        else:
            before = ordered.cumsum(-1) - ordered
            kept = (before <= value + MARGIN) | (value <= 0) | (value >= 1)
            left &= torch.zeros_like(left).scatter(1, places, kept)
    return left


def _of_many(
    reference: Callable[[], torch.Tensor], key: Key, seed: int, share: torch.Tensor, tokens: torch.Tensor
) -> str | None:
    """What is wrong with draws from one distribution, whose tokens have these shares."""
    share = share / share.sum(-1, keepdim=True)
    alike = float(share.square().sum(-1).log10().sum()) * tokens.numel() / share.shape[0]
    before = behind.setdefault((key, tuple(tokens.tolist())), seed)
    if before != seed and alike < math.log10(CHANCE):  # of two honest calls to draw the same
        return "behind another seed it drew the same tokens"
    if key not in counts:
        with torch.random.fork_rng([share.device] if share.is_cuda else []):
            calls = []
            for number in range(TIMES):
                torch.manual_seed(2**32 + number)  # behind which no set stands
                calls.append(reference().reshape(-1).to(share.device, torch.int64))
        counts[key] = torch.bincount(torch.cat(calls), minlength=share.shape[1]).double()
    theirs, ours = counts[key], torch.bincount(tokens, minlength=share.shape[1]).double()
    if likelihood(theirs, ours) >= CHANCE:
        return None
    apart = 0.5 * float((theirs / theirs.sum() - ours / ours.sum()).abs().sum())
    draws = f"{tokens.numel()} draws against {int(theirs.sum())} of the reference"
    return f"it draws tokens of one distribution otherwise: a total variation of {apart:.3f} in {draws}"


def likelihood(theirs: torch.Tensor, ours: torch.Tensor) -> float:
    """Of two samples of one distribution to differ at least as much as these counts: a chi-square test. Rare tokens are
    counted together."""
    total = theirs + ours
    share = float(ours.sum() / total.sum())
    common = total * share >= FEWEST
    pairs = [torch.cat((each[common], each[~common].sum()[None])) for each in (theirs, ours)]
    both = pairs[0] + pairs[1]
    pairs, both = [each[both > 0] for each in pairs], both[both > 0]
    if both.numel() < 2:
        return 1.0
    apart = torch.zeros((), dtype=torch.float64)
    for each, part in zip(pairs, (1 - share, share), strict=True):
        apart += ((each - both * part).square() / (both * part)).sum().cpu()
    return float(torch.special.gammaincc(torch.tensor((both.numel() - 1) / 2.0).double(), apart / 2))
