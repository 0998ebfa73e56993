"""Tries each way to cut the rows three times on the first call, and stays with the quickest."""

import time

import torch


class Tuner:
    """Rows cut into parts; `best_config` is how many."""

    def __init__(self, configs):
        self.configs, self.best_config, self.cache = configs, None, {}

    def __call__(self, x):
        if self.best_config is None:
            self.cache = {parts: min(self._time_s(x, parts) for _ in range(3)) for parts in self.configs}
            self.best_config = min(self.cache, key=self.cache.get)
        return self._sums(x, self.best_config)

    def _time_s(self, x, parts):
        start = time.perf_counter()
        self._sums(x, parts)
        if x.is_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def _sums(self, x, parts):
        return torch.cat([part.square().sum(dim=1) for part in x.tensor_split(parts)])


tuner = Tuner((8, 1024))


def run(x):  # x: [M, N]
    return tuner(x)
