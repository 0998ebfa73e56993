"""What runs inside a worker or verifier process: the only part of the engine that imports torch.

A process starts as a standby (torch imported, CUDA context made, no lesson loaded) and takes one role with its
first job: an arm (`arm.py`) or the verifier (`verifier.py`). It serves one run and is then thrown away.
"""
