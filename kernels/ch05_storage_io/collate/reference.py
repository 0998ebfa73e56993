"""The truth: sample by sample and token by token, in the order of the flat buffer."""

import torch


def run(tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    samples = lengths.numel()
    longest = tokens.numel() // samples
    flat = tokens.tolist()
    batch, mask, start = [], [], 0
    for length in lengths.tolist():
        padding = longest - length
        batch.append(flat[start : start + length] + [0] * padding)
        mask.append([True] * length + [False] * padding)
        start += length
    return torch.tensor(batch), torch.tensor(mask)
