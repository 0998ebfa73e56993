"""A cache with room for every token from the start: a new key or value is written into its slot, nothing moves."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from static_cache import allocate


def prepare(
    model, tokens: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor
) -> Callable[..., torch.Tensor]:
    prompt, new = past_keys.shape[3], tokens.shape[1]
    keys, values = allocate(past_keys, new), allocate(past_values, new)

    def generate(*_: object) -> torch.Tensor:
        # A real prefill writes here directly. Its keys arrive as an input, so the one copy is charged to this rung.
        keys[:, :, :, :prompt] = past_keys
        values[:, :, :, :prompt] = past_values
        answers = []
        for slot, x in enumerate(tokens.split(1, dim=1), start=prompt):
            for n, layer in enumerate(model.layers):
                q, k, v = layer.project(x)
                keys[n, :, :, slot : slot + 1] = k
                values[n, :, :, slot : slot + 1] = v
                seen = slice(0, slot + 1)
                x = layer.finish(x, F.scaled_dot_product_attention(q, keys[n, :, :, seen], values[n, :, :, seen]))
            answers.append(model.norm(x))
        return torch.cat(answers, dim=1)

    return generate


def run(*inputs) -> torch.Tensor:
    return prepare(*inputs)()
