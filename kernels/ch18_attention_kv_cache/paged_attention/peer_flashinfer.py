"""FlashInfer's decode over pages: it follows the table, packs the group's heads and splits the keys.

Its table is int32, and instead of lengths it takes the number of keys in each request's last page: two small kernels
turn the one into the other in every call, as tables and lengths change. How many pages a request has does not, and
only that enters the plan, which is made in `prepare`.
"""

from collections.abc import Callable

import torch
from flashinfer import BatchDecodeWithPagedKVCacheWrapper
from torch import Tensor

WORKSPACE_BYTES = 2**27  # what its documentation recommends; room for the parts


def prepare(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Callable[..., Tensor]:
    B, H, G, D = q.shape
    S, M = k_pages.shape[1], table.shape[0] // B
    first_pages = torch.arange(B + 1, dtype=torch.int32, device=q.device) * M
    pages, last = torch.empty_like(table, dtype=torch.int32), torch.empty_like(lengths)
    decode = BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=q.device),
        use_cuda_graph=True,  # no graph is made; it keeps these buffers, which each call fills
        use_tensor_cores=True,  # its advice for groups of several heads
        paged_kv_indptr_buffer=torch.empty_like(first_pages),
        paged_kv_indices_buffer=pages,
        paged_kv_last_page_len_buffer=last,
    )
    decode.plan(first_pages, table.int(), torch.full_like(last, S), H * G, H, D, S, q_data_type=q.dtype)

    def attend(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:
        pages.copy_(table)
        torch.sub(lengths, (M - 1) * S, out=last)
        return decode.run(q.view(B, H * G, D), (k_pages, v_pages)).view(B, H, G, D)

    return attend


def run(q: Tensor, k_pages: Tensor, v_pages: Tensor, table: Tensor, lengths: Tensor) -> Tensor:  # -> [B, H, G, D]
    return prepare(q, k_pages, v_pages, table, lengths)(q, k_pages, v_pages, table, lengths)
