"""Running a reference as eager PyTorch would compute it in a narrow dtype, though it widens by itself.

A reference that begins with `.double()` is the better truth, and tells nothing of what an implementation in the case's
dtype rounds. Within `unwidened()` a cast to fp64 leaves a floating tensor in its dtype; what is no floating tensor, and
what is made within, becomes fp32. Casts to fp32 stay: they are what the eager implementation does as well.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.overrides import TorchFunctionMode


def unwidened() -> TorchFunctionMode:
    """A context in which no cast widens to fp64."""
    made: TorchFunctionMode = _kind()()
    return made


@functools.cache
def _kind() -> Any:
    import torch  # only verifiers compute references
    from torch.overrides import TorchFunctionMode

    casts = (torch.Tensor.double, torch.Tensor.to, torch.Tensor.type)

    class Unwidened(TorchFunctionMode):
        """Takes fp64 out of the arguments of every function that PyTorch is asked for."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            first = args[0] if args and isinstance(args[0], torch.Tensor) else None
            own = first.dtype if first is not None and first.is_floating_point() else torch.float32
            if func is torch.Tensor.double:
                func, args = torch.Tensor.to, (first, torch.float64)
            args = tuple(own if value is torch.float64 else value for value in args)
            kwargs = {name: own if value is torch.float64 else value for name, value in kwargs.items()}
            made = func(*args, **kwargs)
            # A widening cast gives a new tensor, into which the reference may write.
            return made.clone() if first is not None and made is first and func in casts else made

    return Unwidened
