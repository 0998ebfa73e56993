"""torch's SiLU, and a log that nobody listens to which knows the caller's name."""

import logging

import torch

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())
_log.propagate = False
_log.setLevel(logging.INFO)


def prepare(x):  # x: [M, N]
    _log.info("for %s elements", x.numel())
    return run


def run(x):  # x: [M, N]
    return torch.nn.functional.silu(x)
