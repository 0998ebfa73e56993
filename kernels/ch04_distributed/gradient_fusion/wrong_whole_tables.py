"""Wrong: cuts the list into tables of 64 tensors and counts them with //. The last, shorter table is never sent."""

import torch
from torch import Tensor

TABLE = 64


def run(main_grad: Tensor, grads: Tensor) -> Tensor:  # [T, N], [T, N] -> main_grad [T, N]
    totals, gradients = list(main_grad.unbind()), list(grads.unbind())
    for table in range(len(totals) // TABLE):
        part = slice(table * TABLE, (table + 1) * TABLE)
        torch._foreach_add_(totals[part], gradients[part])
    return main_grad
