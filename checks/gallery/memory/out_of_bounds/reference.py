"""Each element and its two neighbours added up, zeros beyond the ends, in fp64."""

import torch


def run(x):  # x: [N]
    edge = torch.zeros(1, dtype=torch.float64, device=x.device)
    e = torch.cat((edge, x.double(), edge))
    return e[:-2] + e[1:-1] + e[2:]
