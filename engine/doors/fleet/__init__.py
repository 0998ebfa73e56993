"""The fleet: many candidates of one target over the GPUs of many hosts, on Ray.

Ray places and moves; it measures and judges nothing. Four parts, each a process of its own:

    the command     plans rows in `candidates.db`, leases them, writes down their ends (running)
    the driver      the one process that is Ray's client; holds nothing that could be lost (driver)
    an agent        an actor for each GPU that has one row run at a time (agent, work)
    the engine      of the agent's host: runs the row as any other run, and alone writes that host's store

The driver is apart from the command because Ray ends the process of its client when the cluster's head is gone. Whoever
dies, a row is in the table until its outcome is; an agent that is given a row once more finds the run that was made of
it in its host's store, or follows the one that goes on.

A row is a whole comparison: baseline, candidate and A/A arm of one run, on one GPU. Neither agents nor the driver
import torch or touch CUDA.
"""
