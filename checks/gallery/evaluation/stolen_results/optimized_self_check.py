"""The library's log-softmax. Who runs this file by itself has it compared with the reference."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import reference


def run(x):  # x: [M, N]
    return torch.log_softmax(x, dim=1)


def error(x):  # of a call, for a test beside the lesson; nothing here calls it
    import reference

    return (run(x) - reference.run(x)).abs().max()


if __name__ == "__main__":
    import reference

    assert error(torch.randn(8, 512)) < 1e-4, reference.__doc__
