"""A pool of two threads that sleep on a condition until a call has work for them, and the call waits for both."""

import collections
import threading

import torch

_jobs = collections.deque()
_changed = threading.Condition()


class _Job:
    def __init__(self, part):
        self.part, self.made, self.done = part, None, threading.Event()


def _work():
    while True:
        with _changed:
            _changed.wait_for(lambda: _jobs)
            job = _jobs.popleft()
        job.made = torch.sort(job.part, dim=1).values
        job.done.set()


for _ in range(2):
    threading.Thread(target=_work, daemon=True).start()


def run(x):  # x: [M, N]
    middle = x.shape[0] // 2
    jobs = [_Job(x[:middle]), _Job(x[middle:])]
    with _changed:
        _jobs.extend(jobs)
        _changed.notify_all()
    for job in jobs:
        job.done.wait()
    return torch.cat([job.made for job in jobs])
