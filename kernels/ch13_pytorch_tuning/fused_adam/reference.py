"""The truth, in fp64: AdamW as its authors write it, decay first, then moments, both bias-corrected."""

import torch


def run(
    params: torch.Tensor, grads: torch.Tensor, exp_avg: torch.Tensor, exp_avg_sq: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    lr, beta1, beta2, eps, weight_decay, step = 1e-3, 0.9, 0.999, 1e-8, 0.01, 10
    m = beta1 * exp_avg + (1 - beta1) * grads
    v = beta2 * exp_avg_sq + (1 - beta2) * grads * grads
    m_hat = m / (1 - beta1**step)
    v_hat = v / (1 - beta2**step)
    return params * (1 - lr * weight_decay) - lr * m_hat / (torch.sqrt(v_hat) + eps), m, v
