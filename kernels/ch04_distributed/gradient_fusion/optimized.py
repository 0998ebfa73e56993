"""One flat bucket: all parameters' gradients side by side in memory, so that one kernel adds them."""

from torch import Tensor


def run(main_grad: Tensor, grads: Tensor) -> Tensor:  # [T, N], [T, N] -> main_grad [T, N]
    main_grad.view(-1).add_(grads.view(-1))
    return main_grad
