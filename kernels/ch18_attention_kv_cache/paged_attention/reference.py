"""The truth, in fp64: each request's keys looked up page by page. -> y [B, H, G, D]."""

import torch
from torch import Tensor


def run(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
    y = torch.empty_like(q)
    pages = table.view(q.shape[0], -1)
    for request, length in enumerate(lengths.tolist()):
        k, v = (x[pages[request]].flatten(0, 1)[:length] for x in (k_pages, v_pages))  # [length, H, D]
        scores = torch.einsum("hgd,thd->hgt", q[request], k) * q.shape[-1] ** -0.5
        y[request] = torch.einsum("hgt,thd->hgd", torch.softmax(scores, dim=-1), v)
    return y
