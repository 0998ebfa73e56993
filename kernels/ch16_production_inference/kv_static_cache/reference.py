"""The truth, in fp64, without any cache: all G tokens go through every layer at once under a causal mask."""

import math

import torch


def run(model, tokens: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor) -> torch.Tensor:
    new, past = tokens.shape[1], past_keys.shape[3]
    # Token i may see the whole prompt and the new tokens up to and with itself.
    slot = torch.arange(past + new, device=tokens.device)
    hidden = slot[None, :] > past + torch.arange(new, device=tokens.device)[:, None]
    x = tokens
    for layer, prompt_keys, prompt_values in zip(model.layers, past_keys, past_values, strict=True):
        q, k, v = layer.project(x)
        keys = torch.cat((prompt_keys, k), dim=2)
        values = torch.cat((prompt_values, v), dim=2)
        scores = (q @ keys.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(hidden, -math.inf)
        x = layer.finish(x, torch.softmax(scores, dim=-1) @ values)
    return model.norm(x)
