"""Wrong: the scores are put in units of log2(e) for exp2, and the slopes are not.

Every head decays at 0.69 of its rate. The output is a softmax average as it should be, finite and of the right size;
with slopes of zero, a test of "attention without bias", it is exact.
"""

from attention import attend
from torch import Tensor


def run(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:  # [B, H, S, D] fp16, slopes [H] fp32
    return attend(q, k, v, slopes, slope_unit=1.0)
