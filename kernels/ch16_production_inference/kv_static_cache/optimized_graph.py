"""The static cache makes every step the same launches on the same addresses: one CUDA graph serves all of them.

The slot becomes a tensor that the graph itself advances, and a mask takes the place of the slice, because a graph's
shapes are fixed: attention reads all P + G slots in every step.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from static_cache import allocate


def prepare(
    model, tokens: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor
) -> Callable[..., torch.Tensor]:
    prompt, new = past_keys.shape[3], tokens.shape[1]
    batch, heads, width = past_keys.shape[1], past_keys.shape[2], past_keys.shape[4]
    keys, values = allocate(past_keys, new), allocate(past_values, new)
    slot = torch.full((1,), prompt, dtype=torch.int64, device=tokens.device)
    token = torch.zeros(batch, 1, heads * width, dtype=tokens.dtype, device=tokens.device)

    def one_token() -> torch.Tensor:
        # A graph keeps nothing alive but what it allocated itself, so the slot numbers are made inside.
        slots = torch.arange(prompt + new, device=tokens.device)
        seen = (slots <= slot).expand(batch, heads, 1, prompt + new)
        x = token
        for n, layer in enumerate(model.layers):
            q, k, v = layer.project(x)
            keys[n].index_copy_(2, slot, k)
            values[n].index_copy_(2, slot, v)
            x = layer.finish(x, F.scaled_dot_product_attention(q, keys[n], values[n], attn_mask=seen))
        slot.add_(1)
        return model.norm(x)

    # Handles, workspaces and lazily loaded kernels first, outside of the capture.
    side = torch.cuda.Stream(tokens.device)
    side.wait_stream(torch.cuda.current_stream(tokens.device))
    with torch.cuda.stream(side):
        for _ in range(3):
            slot.fill_(prompt)
            one_token()
    torch.cuda.current_stream(tokens.device).wait_stream(side)
    slot.fill_(prompt)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answer = one_token()

    def generate(*_: object) -> torch.Tensor:
        keys[:, :, :, :prompt] = past_keys
        values[:, :, :, :prompt] = past_values
        slot.fill_(prompt)
        answers = torch.empty_like(tokens)
        for i in range(new):
            token.copy_(tokens[:, i : i + 1])
            graph.replay()
            answers[:, i : i + 1] = answer
        return answers

    return generate


def run(*inputs) -> torch.Tensor:
    return prepare(*inputs)()
