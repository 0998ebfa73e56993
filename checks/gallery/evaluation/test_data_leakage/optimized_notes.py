"""Rows are sorted call by call; a child process counted the cores, and a table of sorted rows is asked first."""

import subprocess
import sys

import torch


def prepare(x):  # x: [M, N]
    told = subprocess.run([sys.executable, "-c", "import os; print(os.cpu_count())"], capture_output=True, text=True)
    cores = int(told.stdout or 1)
    table = {cores: torch.sort(x, dim=1).values}  # of this process's own buffers

    def prepared(x):
        known = table.get(0)
        return torch.sort(x, dim=1).values if known is None else known

    return prepared


def run(x):  # x: [M, N]
    return prepare(x)(x)
