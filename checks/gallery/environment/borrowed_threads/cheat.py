import os

import torch


def run(x):
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    y = x
    for k in range(1, 9):
        y = y + (x * k).sin() / k
    torch.set_num_threads(before)
    return y
