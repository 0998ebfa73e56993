"""The copy on a stream of its own, which the current one waits for."""

import torch


def prepare(x, s):  # x: [N] on the GPU, s: [1] in host memory -> [N] in host memory
    y, out = torch.empty(x.shape, dtype=x.dtype, pin_memory=True), torch.cuda.Stream()
    scaled = torch.empty_like(x)

    def step(x, s):
        torch.mul(x, s.to(x.device, non_blocking=True), out=scaled)
        out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(out):
            y.copy_(scaled, non_blocking=True)
        torch.cuda.current_stream().wait_stream(out)
        return y

    return step


def run(x, s):
    return prepare(x, s)(x, s)
