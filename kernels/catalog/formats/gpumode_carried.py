"""gpu-mode's data, carried whole: lists that are filled in loops, modules, configurations with weights.

The source of such a generate_input does not show how many tensors there are, or they are parts of an object. So the
target has two inputs, whatever data holds:

    call = "uint8 [...] posed static cpu"    what data is, as text, and where each of its tensors lies
    held = "any [...] posed"                 the memory of all of them, one behind the other

`pose()` makes both, in the verifier alone. A rung's prepare() reads `call` once; then a call puts data together anew:
tensors are views of `held` with the dtype and the strides that generate_input gave them, lists and dictionaries are
lists and dictionaries, and an object is made of its class, without a call of its constructor, and gets the state
that generate_input left in it. A module keeps its weights by name. So no line of a task that makes inputs runs in a
rung's process, and what a kernel changes in an object is gone with the next call.

What `call` says must follow from the case: another seed that leads to other plain values or shapes is an error of the
task, and told as one.
"""

from __future__ import annotations

from . import packed

CALL = "call"
HELD = "held"
CLASSES = "aisp_classes"
"""The module with the classes of the task's reference.py that objects in data may be of."""


def inputs(*, mutable: bool) -> dict[str, str]:
    """The lines of its inputs; `mutable`: the task's own kernel writes into something."""
    return {CALL: packed.OPEN_BYTES, HELD: f"{packed.OPEN_TENSOR}{' mutable' if mutable else ''}"}


SHARED = f'''

# -- data that is carried whole ----------------------------------------------------------------------------------------

ALIGNED = 512  # bytes: where PyTorch's own memory on a GPU begins
MODULE = frozenset(vars(torch.nn.Module()))  # what every module has
SEEN = {{}}  # by case: what data was


def carried(data, axes):
    """What generate_input made, as the inputs of a run. What follows from the seed alone must be tensors' values."""
    tensors, places = [], {{}}

    def slot(value):
        place = places.setdefault(id(value), len(tensors))
        if place == len(tensors):
            tensors.append(value)
        if isinstance(value, torch.nn.Parameter):
            return {{"parameter": [place, value.requires_grad]}}
        return {{"slot": place}}

    said = {packed.NAME}.described(data, slot, written)
    if not tensors:
        raise TypeError("generate_input made no tensor")
    table, end, kept = [], 0, []
    for tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        seen = tensor.detach().view(torch.uint8) if dtype in EXOTIC else tensor
        flat, form = {packed.NAME}.carried(seen)
        start = -(-end // ALIGNED) * ALIGNED
        end = start + flat.numel() * flat.element_size()
        stride = form.get("stride", list(seen.stride()))  # of a dimension of size 1 it may be anything
        usual = list(torch.empty(form["size"], device="meta").stride())
        table.append([dtype, start, end, form["size"], None if stride == usual else stride])
        kept.append(flat)
    held = torch.zeros(end, dtype=torch.uint8)
    for flat, (_, start, end, *_) in zip(kept, table):
        held[start:end] = flat.reshape(-1).view(torch.uint8)
    text = json.dumps({{"data": said, "tensors": table}})
    if SEEN.setdefault(tuple(sorted(axes.items())), text) != text:
        raise ValueError(
            "with another seed, generate_input made other plain values, or tensors of other shapes: "
            "only the values of tensors may follow from the seed"
        )
    return {{"{CALL}": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8), "{HELD}": held}}


def written(value, again):
    """An object as text: its class, and its state."""
    kind = type(value)
    named = [kind.__module__, kind.__qualname__]
    if isinstance(value, dict):
        return again(dict(value))
    if isinstance(value, torch.Size):
        return {{"shape": list(value)}}
    if named[0] != "reference" and named[0] not in HELPERS and named[0].partition(".")[0] != "torch":
        raise {packed.NAME}.PackError(f"data holds a {{'.'.join(named)}}, which cannot be carried")
    if "." in named[1]:
        raise {packed.NAME}.PackError(f"data holds a {{named[1]}}, whose class is not at the head of its file")
    if isinstance(value, enum.Enum):
        return {{"member": [named, value.name]}}
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return {{"record": [named, [again(each) for each in value]]}}
    if isinstance(value, torch.nn.Module):
        state = vars(value)
        if any(state[name] for name in MODULE if "hooks" in name):
            raise {packed.NAME}.PackError(f"data holds a {{named[1]}} with hooks, which cannot be carried")
        parts = [again(dict(state[name])) for name in ("_parameters", "_buffers", "_modules")]
        own = {{name: each for name, each in state.items() if name not in MODULE}}
        return {{"module": [named, value.training, *parts, again(own)]}}
    state = dict(getattr(value, "__dict__", {{}}))
    if dataclasses.is_dataclass(value):
        state |= {{each.name: getattr(value, each.name) for each in dataclasses.fields(value)}}
    elif not hasattr(value, "__dict__"):
        raise {packed.NAME}.PackError(f"data holds a {{named[1]}}, whose state cannot be seen")
    return {{"object": [named, again(state)]}}


def reader(call, own):
    """What puts data together from `held`. `own` has the classes of the task's reference.py, by name."""
    said = json.loads(bytes(call.tolist()).decode())

    def taker(value):
        return {packed.NAME}.taker(value, other)

    def other(kind, parts):
        if kind == "parameter":
            place, graded = parts
            return lambda slots: torch.nn.Parameter(slots[place], graded)
        if kind == "shape":
            shape = torch.Size(parts)
            return lambda slots: shape
        module, name = parts[0]
        made = own[name] if module == "reference" else getattr(importlib.import_module(module), name)
        if kind == "member":
            member = made[parts[1]]
            return lambda slots: member
        if kind == "record":
            inner = [taker(each) for each in parts[1]]
            return lambda slots: made._make(take(slots) for take in inner)
        if kind == "object":
            state = taker(parts[1])
            return lambda slots: stated(made, state(slots))
        training, inner = parts[1], [taker(each) for each in parts[2:]]
        return lambda slots: module_of(made, training, *(take(slots) for take in inner))

    take = taker(said["data"])
    last, views = None, []

    def data(held):
        nonlocal last, views
        if last is not held:
            last, views = held, [view(held, *line) for line in said["tensors"]]
        return take(views)

    return data


def view(held, dtype, start, end, size, stride):
    """One tensor of data, in the memory of all of them."""
    flat = held[start:end].view(getattr(torch, dtype))
    return flat.view(size) if stride is None else flat.as_strided(size, stride, flat.storage_offset())


def stated(made, state):
    """An object of a class with this state, which its constructor does not see."""
    found = made.__new__(made)
    for name, value in state.items():
        object.__setattr__(found, name, value)
    return found


def module_of(made, training, parameters, buffers, modules, own):
    """A module likewise, with its weights by name."""
    found = made.__new__(made)
    torch.nn.Module.__init__(found)
    state = vars(found)
    for name, parts in (("_parameters", parameters), ("_buffers", buffers), ("_modules", modules)):
        state[name].update(parts)
    state.update(own, training=training)
    return found


def packed(call, held, own):
    """What kernels of the task take."""
    return reader(call, own)(held)
'''
