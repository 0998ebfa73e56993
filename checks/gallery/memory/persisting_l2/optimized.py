"""Asks the driver what could be set aside of the L2, and leaves it at that."""

import torch
from cuda.bindings import driver


def prepare(x):  # x: [M, N]
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    driver.cuCtxGetLimit(driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return lambda x: torch.sum(x, dim=1, out=y)


def run(x):
    return prepare(x)(x)
