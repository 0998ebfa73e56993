"""A promise as well, but kept before the call returns: what comes out is a plain tensor."""

import torch


class Promise(torch.Tensor):
    """Memory for a result, and who fills it."""

    def keep(self, x):
        plain = self.as_subclass(torch.Tensor)
        plain.copy_(torch.sort(x, dim=1).values)
        return plain


def run(x):  # x: [M, N]
    return torch.empty_like(x).as_subclass(Promise).keep(x)
