"""The chain captured once; a replay computes it from the inputs as they are."""

import torch
from baseline import run as chain


def prepare(x, w):  # x: [M, N], w: [N]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        chain(x, w)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = chain(x, w)

    def step(*_):
        graph.replay()
        return y

    return step


def run(x, w):
    return prepare(x, w)()
