"""The truth, in fp64: y[m, n] = sum over k of x[m, k] * (nibble[n, k] - 8) * scales[k / 128, n].

x [M, K], packed [N, K/2], scales [K/128, N]; packing.py says where nibble [n, k] lies.
"""

from packing import unpacked
from torch import Tensor


def run(x: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    return x @ unpacked(packed, scales).T
