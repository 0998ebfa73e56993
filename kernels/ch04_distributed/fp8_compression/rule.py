"""What an exchange of rounded gradients owes: one answer for all, no further off than two roundings, nothing lost."""

import torch
from torch import Tensor

BLOCK = 256  # gradients whose largest decides how small their numbers may get before they vanish
ROUNDING = 2**-4  # of a number: the most by which e4m3 is off, with three bits behind the first
VANISHING = 2**-17  # of the largest of a block: e4m3 ends a little below 2**-18 of its own largest
LOST = 2**-19  # of the numbers that were added: a few roundings of fp32


def judge(inputs: dict[str, Tensor], outputs: list[Tensor], expected: list[Tensor]) -> str | None:
    """Say what is wrong with [mean, residual], [2, N] each, or None."""
    means, residuals = (each.double() for each in outputs)
    given = inputs["grads"].double() + inputs["residual"].double()
    ranks = len(given)
    if not bool((means == means[0]).all()):
        return "the ranks end with different means"
    truth, size = expected[0][0].double(), given.abs().mean(0)
    largest = _largest_of_block(given.abs().amax(0))
    allowed = ROUNDING * ((1 + ROUNDING) * size + truth.abs()) + VANISHING * largest
    told = _beyond((means[0] - truth).abs(), allowed)
    if told:
        return f"the mean is further off than two roundings to e4m3: {told}"
    lost = (ranks * means[0] + residuals.sum(0) - given.sum(0)).abs()
    told = _beyond(lost, LOST * ranks * size)
    if told:
        return f"something is lost: what was given is not {ranks} times the mean and what is left: {told}"
    return None


def _largest_of_block(sizes: Tensor) -> Tensor:
    """For each element [N] the largest of its block."""
    padded = torch.nn.functional.pad(sizes, (0, -len(sizes) % BLOCK)).view(-1, BLOCK)
    return padded.amax(1, keepdim=True).expand_as(padded).flatten()[: len(sizes)]


def _beyond(error: Tensor, allowed: Tensor) -> str:
    """How many elements are off by more than is allowed, NaN too, and the first of them; "" where none is."""
    wrong = (~(error <= allowed)).nonzero().flatten()
    if not len(wrong):
        return ""
    place = int(wrong[0])
    return f"{len(wrong)} elements; element {place} by {error[place]:.3g} where {allowed[place]:.3g} is allowed"
