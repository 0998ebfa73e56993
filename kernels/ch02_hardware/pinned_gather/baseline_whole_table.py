"""All of the table to the GPU, which gathers there at the speed of HBM: four times the bytes over the bus."""

from torch import Tensor


def run(table: Tensor, order: Tensor) -> Tensor:  # table [V, D] in host memory, order [K] -> [K, D]
    return table.to(order.device, non_blocking=True).index_select(0, order)
