"""gpu-mode's targets as a run uses them: data that is carried, a kernel that is looked at, a check that judges."""

from __future__ import annotations

import json
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.imported import python
from tests.kernels.formats import gpumode as text

ZEROS = "return torch.zeros(1)"
CHECK = "def check_implementation(data, output):\n    return True, ''\n"

USE = """
import json, sys
sys.path.insert(0, ".")
import baseline, inputs, optimized, reference, rule, torch
from aisp.kernels.runtime import carrying, gpumode, observing

AXES = {"m": 8, "k": 16}
NAMES = ("call", "held", "room")

def posed(word=3, axes=AXES):
    return inputs.pose(axes, "cpu", torch.Generator().manual_seed(word))

def moved(tensor):
    whole = torch.zeros(512 + tensor.numel(), dtype=torch.uint8)  # as a rung has it: behind a margin
    return whole[256 : 256 + tensor.numel()].copy_(tensor)

def given(found):
    return [moved(found[name]) if name != "call" else found[name] for name in NAMES]

def judged(module, found):
    arguments = given(found)
    outputs = module.prepare(*arguments)(*arguments)
    return rule.judge(found, outputs, reference.run(*given(found)))
"""


def used(place: Path, program: str) -> subprocess.CompletedProcess[str]:
    """What a program says that uses the target's modules."""
    return python(USE + textwrap.dedent(program), where=place)


def result(place: Path, program: str) -> object:
    """What it prints last, as JSON."""
    done = used(place, program)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


# -- data --------------------------------------------------------------------------------------------------------------

DATA = {
    "nested functions and views": """
        def generate_input(m: int, k: int, seed: int):
            torch.manual_seed(seed)
            a = torch.randint(0, 2, (4, m, k), dtype=torch.uint8).permute(1, 2, 0)

            def scales(rows):
                made = torch.randint(1, 3, (4, rows, k // 16), dtype=torch.int8)
                return made.to(torch.float32).permute(1, 2, 0)

            return (a.view(torch.float4_e2m1fn_x2), scales(m), scales(k))
    """,
    "several results taken apart, lists that are stacked": """
        def generate_input(m, k, seed):
            scores = torch.randn(m, 64).softmax(dim=-1)
            weights, ids = torch.topk(scores, k=k, dim=-1, sorted=False)
            ids = ids.to(torch.int32)
            parts = []
            for _ in range(4):
                parts.append(torch.randn(m, k))
            config = {"experts": 4, "top": k, "align": (k + 15) // 16 * 16}
            return weights, torch.stack(parts), ids, config
    """,
    "a transposed one among others, by a function of the task's own": """
        def columns(m, k):
            return torch.rand(m, k, dtype=torch.float16).T

        def generate_input(m, k, seed):
            odd = torch.rand(m, 2 * k)[:, ::2]
            return columns(m, k), odd, torch.tensor(3.0), torch.rand(2, m, k, 1).permute(3, 2, 0, 1)
    """,
    "own functions that return several": """
        def both(x, eps):
            y = x.float() * eps
            return y.to(x.dtype), y.sum(dim=-1)

        def generate_input(m: int, k: int, seed: int):
            device = torch.device("cpu")
            x = F.normalize(torch.randn(m, k, device=device), p=2, dim=-1)
            y, total = both(x, eps=1e-3)
            return x.contiguous(), y.contiguous(), total.contiguous()
    """,
    "one tensor, by a name": """
        def generate_input(m, k, seed):
            data = torch.distributions.Cauchy(0.0, 2.0).sample((m, k)).contiguous()
            return data
    """,
    "numbers beside tensors, fixed and from the case": """
        def generate_input(m, k, seed, eps=1e-5):
            n = m * 2
            return torch.rand(n, k), n, 1e-3, k
    """,
    "a branch, and a name bound again": """
        def generate_input(m, k, seed):
            if m > 4:
                mask = torch.ones(m, k)
            else:
                mask = torch.randint(0, 2, (m, k))
            mask = mask * 2
            data = (mask, {"w": torch.zeros(k), "b": None})
            return data
    """,
    "a list that a loop makes": "return [torch.rand(m) for _ in range(k)]",
    "a tuple of lists, filled in a loop": """
        found = []
        for i in range(k):
            found.append([torch.rand(i + 1), torch.full((1,), i)])
        return tuple(found), float("inf"), None
    """,
    "a dictionary with computed keys": """
        found = {}
        for i in range(k):
            found[f"experts.{i}.weight"] = torch.rand(m, k).T
        return torch.rand(m, 4)[:, 1:3], found
    """,
    "a list in a dictionary": """
        found = {"all": [], "width": m}
        for i in range(k):
            found["all"].append(torch.rand(m).to(torch.float8_e4m3fn))
        return found, torch.rand(k), torch.Size([m, k])
    """,
    "as many as a tensor is split into": "return torch.rand(m, 2).split(3)",
    "the same one many times": "return [torch.rand(m)] * k, torch.rand(0, 3)",
    "packed numbers of 4 bits in a loop": """
        made = [torch.randint(0, 256, (1, k, m), dtype=torch.uint8).permute(2, 1, 0) for _ in range(3)]
        made.append(torch.randint(0, 256, (1, k, m), dtype=torch.uint8).permute(1, 2, 0))
        return [each.view(torch.float4_e2m1fn_x2) for each in made], m
    """,
    "numbers that follow from a shape": """
        x = torch.rand(m, k)
        return x, x.shape[0], x.size(1) * x.numel(), (x.dtype, x.stride())
    """,
    "numbers that follow from values without chance": """
        lengths = torch.full((k,), m)
        longest = math.ceil(lengths.max().item() / 3) * 3
        return torch.rand(k, longest), lengths, longest, int(lengths[0])
    """,
    "a tensor in some cases, none in others": """
        bias = None
        if m < k:
            bias = torch.rand(k)
        return torch.rand(m, k), bias, None if m < k else torch.rand(m), torch.rand(k) if m < k else None
    """,
    "another form for other cases": """
        if m > k:
            return torch.rand(m), k
        return {"x": torch.rand(m), "y": torch.rand(k)}
    """,
    "modules, with a state of their own": """
        layers = torch.nn.ModuleList([torch.nn.Linear(m, k), torch.nn.LayerNorm(k)]).eval()
        layers[0].weight.requires_grad = False
        return torch.rand(2, m), layers
    """,
    "objects of the task's own classes": """
        plan = Plan(torch.rand(m), Size(k, torch.rand(k)), [torch.float16, Mode.FAST])
        return plan, torch.rand(3)


    class Mode(enum.Enum):
        FAST = 1


    class Size(typing.NamedTuple):
        k: int
        scale: torch.Tensor


    @dataclasses.dataclass(frozen=True, slots=True)
    class Plan:
        weight: torch.Tensor
        size: Size
        rest: list
    """,
    "complex numbers, also conjugated": "x = torch.rand(m, k, dtype=torch.complex64)\nreturn x, x.mT.conj()",
    "what a function of torch returns": "return torch.topk(torch.rand(m, k), 2), k",
    "plain values of many kinds": """
        several = {1, 2}, frozenset("ab"), range(m, 2 * k, 2), slice(None, k)
        numbers = np.float32(0.1), np.int64(m), 2j, float("nan").hex(), True, b"".hex()
        return torch.rand(m), several, {"dtype": torch.complex64, "order": torch.channels_last, 3: numbers}
    """,
    "a list, a mask, nothing and a number": """
        xs = [torch.randn(m, k) for _ in range(3)]
        return [xs, torch.rand(m, k) > 0.5, None, 3]
    """,
    "numbers of NumPy's generator": "return torch.from_numpy(np.random.randn(m, k).astype('float32'))",
    "channels that lie last": "return torch.rand(2, 3, m, k).to(memory_format=torch.channels_last)",
}

ROUND = """
import aisp_classes, numpy
first = torch.randint(1, 2**31 - 1, (2,), generator=torch.Generator().manual_seed(3)).tolist()
def form(part):
    if isinstance(part, torch.Tensor):
        part = part.resolve_conj()
        raw = part.detach().contiguous()
        raw = raw.view(torch.uint8) if part.dim() and part.numel() else raw
        return [type(part).__name__, part.dtype, part.shape, part.stride(), part.requires_grad, raw.tolist()]
    if isinstance(part, torch.nn.Module):
        assert part.state_dict().keys() == dict(part.named_parameters()).keys()
        return [part.training, repr(part), form(dict(part.state_dict(keep_vars=True)))]
    if isinstance(part, tuple) and type(part).__module__ == "torch.return_types":
        part = tuple(part)
    if isinstance(part, (tuple, list)):
        return [type(part), *map(form, part)]
    if isinstance(part, dict):
        return [type(part), *((key, form(value)) for key, value in part.items())]
    if hasattr(type(part), "__dataclass_fields__"):
        return [type(part), *(form(getattr(part, name)) for name in part.__dataclass_fields__)]
    return part
found = posed()
assert all(found[name].dtype is torch.uint8 for name in NAMES)
call, held, room = given(found)
data = carrying.reader(call, "reference", vars(reference))(held, room)
gpumode.settle(first[1])
again = reference.generate_input(**AXES, **({"seed": first[0]} if "seed" in TAKES else {}))
assert form(data) == form(again), (form(data), form(again))
other = carrying.reader(call, "reference", aisp_classes.run())
assert repr(other(held, room)) != ""
""".replace("TAKES", "__import__('inspect').signature(reference.generate_input).parameters")


@pytest.mark.parametrize("name", DATA)
def test_data_is_carried_as_it_was_made(tmp_path: Path, name: str) -> None:
    done = used(text.composed(tmp_path, DATA[name], ZEROS, CHECK), ROUND)
    assert done.returncode == 0, done.stderr


NOT_CARRIED = {
    "a number that follows from the seed": (
        "return [torch.rand(m)] * k, {'a': torch.rand(2).argmax().item()}",
        "with another seed it made other plain values",
    ),
    "a number that follows from drawn values": ("x = torch.rand(m)\nreturn x, float(x.sum())", "only the values of"),
    "a length that does": ("return [torch.rand(m) for _ in range(1 + seed % 7)]", "only the values of tensors may"),
    "a generator": (
        "return [torch.rand(m)] * k, [torch.Generator() for _ in range(2)]",
        "generate_input (reference.py, line 16): data[1][0] is a Generator, whose state cannot be seen",
    ),
    "a function": ("return {'x': torch.rand(m), 's': len}", "data['s'] is of type builtin_function_or_method, which"),
    "an empty list": ("return [torch.rand(m) for _ in range(m - 8)]", "data holds no tensor"),
    "numbers alone": ("return m, k", "data holds no tensor; data may hold tensors, and plain values"),
    "nothing": ("pass", "data holds no tensor"),
    "a sparse one": (
        "return [torch.rand(m), torch.eye(m).to_sparse_csr()]",
        "data[1] is a sparse_csr tensor of float32, which cannot be carried",
    ),
    "a hook": (
        """
        made = torch.nn.Linear(m, k)
        made.register_forward_hook(print)
        return torch.rand(m), made
        """,
        "data[1] is a Linear with hooks",
    ),
    "a class of a function": (
        """
        class Cache(torch.nn.Module):
            pass

        return torch.rand(m), Cache()
        """,
        "Cache, whose class is not at the head of its file",
    ),
    "a class that is made on the way": (
        "return torch.rand(m), torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(m, k))",
        "is a ParametrizedLinear, whose class is not at the head of its file",
    ),
    "an object of another package": (
        "return torch.rand(m), collections.Counter('a'), np.ones(2)",
        "is a numpy.ndarray",
    ),
}


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_what_cannot_be_carried_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    body, reason = NOT_CARRIED[name]
    done = used(text.composed(tmp_path, body, ZEROS, CHECK), "for word in range(9): posed(word, {'m': 8, 'k': 2})")
    assert reason in done.stderr


def test_values_that_are_drawn_without_the_seed_follow_from_the_set(tmp_path: Path) -> None:
    """generate_input without a seed of its own, and with one that it gives to a part of what it draws."""
    for number, body in enumerate(
        (
            "return torch.rand(m, k), torch.tensor(random.random()), torch.tensor(np.random.rand())",
            "return torch.rand(m, generator=torch.Generator().manual_seed(1)), torch.tensor(random.random())",
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        place = text.composed(folder, f"def generate_input(m, k):\n    {body}\n", ZEROS, CHECK)
        done = used(
            place,
            """
            def drawn(word):
                torch.rand(3), __import__("random").random(), __import__("numpy").random.rand()
                return posed(word)["held"].tolist()
            assert drawn(3) == drawn(3) and drawn(3) != drawn(4)
            """,
        )
        assert done.returncode == 0, done.stderr


# -- what ref_kernel does ----------------------------------------------------------------------------------------------

SEEN = {
    "reads alone": ("return data[0] + data[1] + data[2]", [], [], []),
    "writes by an index": ("data[2][...] = data[0]\nreturn data[0] + data[1]", [2], [], []),
    "writes by a method, before it computes": ("return data[0].relu_() + data[1] + data[2]", [0], [], []),
    "writes what is there already": ("data[2].zero_()\nreturn data[0] + data[1]", [2], [], []),
    "writes through another name": ("x = data[1].view(2, -1)[1]\nx += data[0].sum()\nreturn x.clone()", [1], [], []),
    "writes beside PyTorch's count": ("data[1].data.numpy()[0] = 7\nreturn data[0] + data[2]", [1], [], []),
    "writes by out=": ("return torch.add(data[0], data[1], out=data[2])", [2], [2], []),
    "returns what it was given": ("return F.dropout(data[0], 0.0)", [], [0], [1, 2]),
    "returns a view of it": ("return data[0] + data[2], data[1][1:]", [], [1], []),
    "sorts": ("return torch.sort(data[0])[0], data[1] + data[2]", [], [], []),
    "looks at the order alone": ("return data[0].argsort().float() + data[1] + data[2]", [], [], []),
    "ignores room": ("a, b, _ = data\nreturn a + b", [], [], [2]),
    "ignores an input": ("a, b, c = data\nreturn a + c", [], [], [1]),
    "reads in another form": ("return (data[0] + data[1] + data[2]).sum()", [], [], []),
    "ignores in another form": ("return (data[0] + data[1]).sum()", [], [], []),
    "fails": ("return data[3]", [], [], []),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_a_kernel_writes_into_returns_and_ignores_is_seen(tmp_path: Path, name: str) -> None:
    body, *wanted = SEEN[name]
    place = text.composed(tmp_path, "return torch.randn(k), torch.rand(k), torch.zeros(k)", body)
    found = """
    posed()
    seen = gpumode._seen[repr(sorted(AXES.items()))][0]
    print(json.dumps([sorted(each) for each in (seen.wrote, seen.returned, seen.ignored)]))
    """
    assert result(place, found) == wanted


def test_room_that_is_ignored_is_seen_where_no_two_results_have_the_same_bits(tmp_path: Path) -> None:
    body = "COUNT.append(None)\na, b, _ = data\nreturn a + b + 1e-6 * len(COUNT)"
    data = "return torch.randn(k), torch.rand(k), torch.zeros(k)\n\n\nCOUNT = []"
    found = "posed()\n((seen, _),) = gpumode._seen.values()\nprint(json.dumps(sorted(seen.ignored)))"
    assert result(text.composed(tmp_path, data, body), found) == [2]


def test_room_of_whole_numbers_is_seen_with_numbers_that_may_be_places(tmp_path: Path) -> None:
    body = "return torch.randint(0, k, (k,)), torch.randperm(k), torch.zeros(k, dtype=torch.int64)"
    own = "values, order, out = data\nreturn values[order]"
    found = "posed()\n((seen, _),) = gpumode._seen.values()\nprint(json.dumps(sorted(seen.ignored)))"
    assert result(text.composed(tmp_path, body, own), found) == [2]


def test_the_runs_log_says_what_was_seen(tmp_path: Path) -> None:
    body = "return torch.rand(m, k).T, {'w': torch.zeros(k), 'eps': 1e-5, 'mode': None}"
    own = "x, parts = data\nreturn F.dropout(x, 0.5), parts['w'].add_(1)"
    done = used(text.composed(tmp_path, body, own), "posed(), posed(4)")
    assert done.stdout == (
        "data: (tensor of float32 [16, 8] strides [1, 16], {'w': tensor of float32 [16] (written, returned), "
        "'eps': 1e-05, 'mode': None}); ref_kernel returns tensor of float32 [16, 8], tensor of float32 [16], "
        "and draws random numbers\n"
    )


def test_memory_that_nobody_wrote_is_seen_in_what_is_returned(tmp_path: Path) -> None:
    body = "out = torch.empty(2, 16)\nout[1] = data.sqrt()\nreturn data.sqrt(), out, torch.empty_like(data).fill_(1)"
    found = "posed()\n((seen, _),) = gpumode._seen.values()\nprint(json.dumps(sorted(seen.unwritten)))"
    place = text.composed(tmp_path, "return torch.rand(k)", body)
    assert result(place, found) == [1]
    assert "; of output 1 some is memory that nobody wrote\n" in used(place, "posed()").stdout


def test_a_result_that_is_not_judged_is_told_with_the_line(tmp_path: Path) -> None:
    for number, (body, told) in enumerate(
        {
            "return data.to_sparse()": "ref_kernel (reference.py, line 21): returns a sparse_coo tensor of float32",
            "return {data.sum().item()}": "a call returned set; tensors, numbers, lists and",
        }.items()
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert told in used(text.composed(folder, "return torch.eye(m)", body), "posed()").stderr


# -- outputs and the check ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", text.RETURNED)
def test_outputs_of_any_form_are_judged_in_the_form_of_ref_kernels(tmp_path: Path, name: str) -> None:
    own, answer = text.RETURNED[name]
    place = text.composed(tmp_path, "return torch.randn(m, k)", own, submission=answer)
    program = """
    found = posed()
    kept = {name: value.clone() for name, value in found.items()}
    truth = reference.run(*given(found))
    wrong = [each + 1 if each.numel() else each for each in truth]
    print(json.dumps([judged(baseline, found), judged(optimized, found), rule.judge(found, wrong, truth)]))
    assert all(torch.equal(found[name], kept[name]) for name in NAMES)
    """
    told = "it is not close" if name != "nothing in it" else None
    assert result(place, program) == [None, None, told]


def test_a_check_that_breaks_down_says_where(tmp_path: Path) -> None:
    check = "def check_implementation(data, output):\n    return data.numel() == output.numel()\n"
    place = text.composed(tmp_path, "return torch.rand(m), m", "return data[0] + 1", check)
    done = used(
        place,
        """
        found, x = posed(), torch.ones(8)
        for returned in (x, x.double()):
            try:
                print(rule.judge(found, (returned,), (x,)))
            except gpumode.TaskError as error:
                print(error)
        """,
    )
    line = 1 + (place / "reference.py").read_text().splitlines().index("    return data.numel() == output.numel()")
    told = f"check_implementation of the task raises AttributeError at line {line} of reference.py: 'tuple' object has"
    assert done.stdout.count(told) == 2, "what breaks on ref_kernel's own result is no fault of another form"


CALLED = """
import gc, weakref
found = posed()
arguments = given(found)
call = optimized.prepare(*arguments)
gc.disable()
first = call(*arguments)
seen = [weakref.ref(each) for each in first if each.numel()]
other = [arguments[0], *(each.clone() for each in arguments[1:])]
other[1].zero_()
values = [call(*other)[0].abs().sum().item(), call(*arguments)[0].abs().sum().item(), first[0].abs().sum().item()]
del first
print(json.dumps([values[0], values[1] == values[2] > 0, sum(each() is not None for each in seen)]))
"""


@pytest.mark.parametrize("data", ["return torch.rand(m), k", "return [torch.rand(m), k]"])
def test_a_call_reads_what_it_is_given_and_keeps_nothing_of_what_it_returned(tmp_path: Path, data: str) -> None:
    place = text.composed(tmp_path, data, ZEROS, CHECK, "return [data[0] * 2, {'a': data[0]}]")
    assert result(place, CALLED) == [0, True, 0]
