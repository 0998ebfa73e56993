"""Flash Linear Attention's rotary embedding: a launch for q and one for k, each after its output is filled with zeros.

The filling is the library's and not of the formula: 2 bytes more per element than the 4 that are needed.
"""

from fla.modules.rotary import rotary_embedding
from torch import Tensor


def run(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:  # bf16, shapes as in reference.py
    # It wants a batch in front: [1, T, heads, D].
    return rotary_embedding(q[None], cos, sin)[0], rotary_embedding(k[None], cos, sin)[0]
