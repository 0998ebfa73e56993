"""What is known of tensors by how they were made."""

from __future__ import annotations

import torch

from aisp.kernels.runtime.observing import Draws


def test_a_tensor_is_a_plain_draw_until_it_is_written_into_or_reckoned_with() -> None:
    with Draws() as draws:
        normal, uniform = torch.randn(4, 4), torch.rand(4, dtype=torch.float64)
        kept, half = normal.contiguous(), normal.to(torch.float16)
        triangle, scaled, whole = torch.triu(normal), 2.0 * uniform, torch.randint(0, 9, (4,))
        written = torch.randn(4)
        written[0] = 7.0
    known = [draws.distribution(each) for each in (normal, uniform, kept, half)]
    assert known == ["normal", "uniform", "normal", "normal"]
    assert not any(map(draws.distribution, (triangle, scaled, whole, written, torch.randn(4), 3, None)))
