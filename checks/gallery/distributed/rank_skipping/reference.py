import torch

TERMS = (6, 24)  # of each rank


def run(x):
    x = x.double()
    rows = []
    for row, terms in zip(x, TERMS, strict=True):
        y = row
        for k in range(1, terms + 1):
            y = y + (row * k).sin() / k
        rows.append(y)
    return torch.stack(rows)
