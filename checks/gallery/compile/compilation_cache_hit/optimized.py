"""A graph of operators is made for each shape and kept: a cache that holds code."""

import functools

import torch


@functools.cache
def _compiled(shape):
    def sort(x):
        return torch.sort(x.view(shape), dim=1)[0]

    return torch.fx.symbolic_trace(sort)


def run(x):  # x: [M, N]
    return _compiled(tuple(x.shape))(x)
