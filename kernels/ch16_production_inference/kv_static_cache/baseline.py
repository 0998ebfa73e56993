"""A cache that grows: each token's key and value are appended with torch.cat, which copies all that came before."""

import torch
import torch.nn.functional as F


def run(model, tokens: torch.Tensor, past_keys: torch.Tensor, past_values: torch.Tensor) -> torch.Tensor:
    keys, values = [*past_keys.unbind()], [*past_values.unbind()]
    answers = []
    for x in tokens.split(1, dim=1):
        for n, layer in enumerate(model.layers):
            q, k, v = layer.project(x)
            keys[n] = torch.cat((keys[n], k), dim=2)
            values[n] = torch.cat((values[n], v), dim=2)
            x = layer.finish(x, F.scaled_dot_product_attention(q, keys[n], values[n]))
        answers.append(model.norm(x))
    return torch.cat(answers, dim=1)
