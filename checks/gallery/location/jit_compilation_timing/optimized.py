"""Code is made for each shape: its sizes stand in the text as numbers."""

import torch

_compiled = {}
SOURCE = """
def sort(x, values, places):
    torch.sort(x.view({M}, {N}), dim=1, out=(values, places))
    return values
"""


def run(x):  # x: [M, N]
    key = tuple(x.shape), x.device
    if key not in _compiled:
        names = {"torch": torch}
        exec(compile(SOURCE.format(M=x.shape[0], N=x.shape[1]), "<sort>", "exec"), names)  # noqa: S102 - making code is what it shows
        _compiled[key] = names["sort"], torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64, device=x.device)
    code, values, places = _compiled[key]
    return code(x, values, places)
