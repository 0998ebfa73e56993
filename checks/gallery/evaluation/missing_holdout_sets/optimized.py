"""The weights as the product likes them, made once."""

import torch


def prepare(x, w):  # x: [M, K], w: [K, N]
    packed = w.t().contiguous()

    def prepared(x, w):
        return torch.nn.functional.linear(x, packed)

    return prepared


def run(x, w):  # x: [M, K], w: [K, N]
    return prepare(x, w)(x, w)
