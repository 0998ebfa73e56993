"""What one would do without aisp: `python cold_pair.py FOLDER DEVICE SIZE`. Imports torch, times the same pair once.

Prints, per variant, its median in ms. No verification, no fresh process per variant, no clocks beside the times.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path


def main() -> None:
    """Time baseline.py, then optimized.py."""
    import torch  # seconds on a cold disk: this is what is being measured

    folder, device, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    x = torch.randn(size, device=device)

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for name in ("baseline", "optimized"):
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        if spec is None or spec.loader is None:
            raise ImportError(f"{folder / name}.py cannot be imported")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for _ in range(10):
            module.run(x)
        wait()
        taken: list[float] = []
        for _ in range(64):
            start = time.perf_counter()
            module.run(x)
            wait()
            taken.append((time.perf_counter() - start) * 1e3)
        print(f"{name} {statistics.median(taken):.4f} ms", flush=True)


if __name__ == "__main__":
    main()
