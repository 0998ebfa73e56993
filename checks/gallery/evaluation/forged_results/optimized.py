"""The same; it prints like a benchmark and sends itself a message, once."""

import socket
import sys

import torch

sys.stdout.write('{"type": "samples", "device_ms": [0.001], "speedup": 99.0}\n')


def prepare(x):  # x: [M, N]
    here, there = socket.socketpair()
    with here, there:
        here.sendall(b"ready")
        there.recv(5)
    return run


def run(x):  # x: [M, N]
    return torch.tanh(x)
