"""How far aisp's times and verdicts can be trusted, measured on a GPU: docs/measurement.md holds the tables.

    python -m tests.proofs timers --out FOLDER    the same callables by several timers
    python -m tests.proofs aa --out FOLDER        identical kernels compared: how often is one called faster?
    python -m tests.proofs slowed --out FOLDER    kernels slowed by a known part: what is found?
    python -m tests.proofs cost --out FOLDER      what a verified comparison costs beside a bare one
    python -m tests.proofs spread --out FOLDER    replicas in forked and in started processes: do they spread alike?
    python -m tests.proofs agreement FOLDER       copies the results to docs/measurement/

Each needs an NVIDIA GPU (`spread --device cpu` does not); without one it says so and ends with status 3.
"""
