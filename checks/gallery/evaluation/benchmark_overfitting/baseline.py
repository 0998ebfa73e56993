"""torch's average pooling along the rows."""

import torch


def run(x):  # x: [M, N]
    columns = x.t().unsqueeze(0)  # [1, N, M]
    pooled = torch.nn.functional.avg_pool1d(columns, 8, ceil_mode=True, count_include_pad=False)
    return pooled[0].t().contiguous()
