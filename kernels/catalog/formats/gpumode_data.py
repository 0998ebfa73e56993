"""What a gpu-mode task passes to a kernel as `data`, read from syntax trees: nothing is imported.

    def generate_input(size, causal, seed):
        x = torch.randn(size, size)
        config = {"size": size, "causal": causal}
        return x, {"weight": torch.randn(size)}, config

`read` finds what generate_input() returns: tensors (`x`, `weight`), which are posed, and plain values (`config`), which
follow from the case and are computed again wherever they are needed, by the statements that they hang on (`values`).
Dictionaries with written keys, tuples and lists may hold both. What a name stands for is looked up through assignments,
branches, and functions of the task's own files; where that ends, the task's `input_t` decides. Whether all of it is so
is checked when the task makes its first set of values.

Where the source does not show how many tensors there are (a list that is filled in a loop), where they are parts of an
object (a module, a configuration with weights), or where its form differs from case to case, data is carried whole
(`gpumode_carried`): what it holds is seen when it is made; so it is where a plain value is read from a tensor. Refused,
with the line: a value that is computed from the seed, and data without a tensor.
"""

from __future__ import annotations

import ast
import enum
import keyword
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MAX_STEPS = 20_000  # of looking up what names stand for
MAX_DEPTH = 120  # of names that stand for names, and of calls
REFERENCE = "reference"  # the file that no submission has
TYPES = "task"  # the file with input_t and output_t
SEED = "seed"  # the argument that is drawn for every set


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PLAIN_CALLS = _words(
    "int float bool str len min max abs round sum tuple list dict range sorted pow divmod set zip enumerate"
)
_FIGURES = _words(  # what methods and attributes of a tensor give, that is no tensor
    "item tolist size numel dim ndimension stride storage_offset data_ptr element_size get_device is_contiguous "
    "is_floating_point shape dtype device ndim nbytes itemsize numpy untyped_storage is_cuda layout"
)
_FORM_FIGURES = _words(  # those that its values do not change
    "size numel dim ndimension stride storage_offset element_size get_device is_contiguous is_floating_point "
    "shape dtype device ndim nbytes itemsize is_cuda layout"
)
_SEVERAL = _words(
    "split chunk unbind tensor_split hsplit vsplit dsplit split_with_sizes meshgrid broadcast_tensors "
    "unique_consecutive gradient"
)
"""Functions and methods that give several tensors."""
_COUNTS = {
    **dict.fromkeys(
        _words("topk sort kthvalue mode frexp aminmax cummax cummin slogdet var_mean std_mean histogram"), 2
    ),
    **dict.fromkeys(_words("qr geqrf eigh eig lu_factor ldl_factor cholesky_ex inv_ex solve_ex triangular_solve"), 2),
    **dict.fromkeys(_words("svd lu lu_unpack lu_factor_ex ldl_factor_ex native_layer_norm native_group_norm"), 3),
    "lstsq": 4,
}
"""Those of which it is known how many."""
_LAYOUTS = _words("T mT H mH t permute transpose movedim moveaxis swapaxes swapdims as_strided channels_last linalg")
"""Attributes after which a tensor may have other strides than its shape says."""
EXOTIC = ("float4_e2m1fn_x2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz")
"""Dtypes of torch in which little can be done with a tensor; all have one byte."""
MANY = 0  # outputs: a list of which nobody can say how long it is before the kernel has returned it
FORM = "form"  # the input that says which strides and which of these dtypes tensors have
_EMPTY = _words("empty empty_like empty_strided new_empty zeros zeros_like new_zeros")
"""What makes a tensor that has nothing to say yet."""
_OF_TORCH = _words("device Size finfo iinfo get_default_dtype")  # plain, and not tensors
_NO_VALUE = _words("manual_seed set_default_device set_default_dtype seed initial_seed")
_TENSOR_CLASSES = _words("Tensor Parameter FloatTensor LongTensor IntTensor HalfTensor")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of data; `mutable`: the task's own kernel writes into it or returns it."""

    name: str
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A plain value of data: `code` computes it where the statements of Data.values have run; `fixed`: from nothing."""

    name: str
    code: str
    fixed: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A tuple, list or dictionary of parts; of a dictionary with their keys."""

    kind: str
    parts: tuple[Part, ...]
    keys: tuple[str, ...] = ()


Part = Tensor | Value | Group


@dataclass(frozen=True, slots=True)
class Data:
    """What generate_input() returns.

    Attributes:
        root: its parts; None where it is carried whole, because the source does not show them.
        values: source of a function of the case, called VALUES, that returns the values that are not fixed, by name;
            "" where there are none.
        formed: a tensor may have other strides than its shape says, or an exotic dtype.
        mutable: it is carried whole, and the task's own kernel writes into something.
        classes: that objects in it may be of, of those that REFERENCE has.
    """

    root: Part | None
    values: str = ""
    formed: bool = False
    mutable: bool = False
    classes: tuple[str, ...] = ()

    def tensors(self) -> list[tuple[Tensor, str]]:
        """Each tensor, with the code that takes it out of `data`."""
        return [(part, code) for part, code in self._leaves() if isinstance(part, Tensor)]

    def plain(self) -> list[tuple[Value, str]]:
        """Each value that is not fixed, likewise."""
        return [(part, code) for part, code in self._leaves() if isinstance(part, Value) and not part.fixed]

    def packed(self) -> str:
        """The code that puts it together from its names. There is none where it is carried whole."""
        assert self.root is not None
        return _packed(self.root)

    def _leaves(self) -> Iterator[tuple[Tensor | Value, str]]:
        return leaves(self.root, "data") if self.root is not None else iter(())


VALUES = "aisp_values"


class UnclearError(Exception):
    """The data is more than can be read.

    Attributes:
        line: of the task's file; 0 for all of it.
        whole: it can be carried whole.
    """

    def __init__(self, line: int, told: str, fix: str, *, whole: bool = False) -> None:
        super().__init__(told)
        self.whole = whole
        self.line = line
        self.told = told
        self.fix = fix


def leaves(part: Part, code: str) -> Iterator[tuple[Tensor | Value, str]]:
    """Each tensor and value of a part once, with the code that takes it out of what `code` is."""
    seen: set[str] = set()
    for leaf, place in _walked(part, code):
        if leaf.name not in seen:
            seen.add(leaf.name)
            yield leaf, place


def _walked(part: Part, code: str) -> Iterator[tuple[Tensor | Value, str]]:
    if not isinstance(part, Group):
        yield part, code
        return
    places: Sequence[object] = part.keys if part.kind == "dict" else range(len(part.parts))
    for place, each in zip(places, part.parts, strict=True):
        yield from _walked(each, f"{code}[{place!r}]")


def _packed(part: Part) -> str:
    if isinstance(part, Tensor):
        return part.name
    if isinstance(part, Value):
        return part.code if part.fixed else part.name
    inner = [_packed(each) for each in part.parts]
    if part.kind == "dict":
        return "{" + ", ".join(f"{key!r}: {code}" for key, code in zip(part.keys, inner, strict=True)) + "}"
    if part.kind == "list":
        return f"[{', '.join(inner)}]"
    return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"


# -- what an expression is ---------------------------------------------------------------------------------------------


class _Is(enum.Enum):
    TENSOR = enum.auto()
    TENSORS = enum.auto()  # several, as topk() gives them
    PLAIN = enum.auto()


@dataclass(frozen=True, slots=True)
class _Other:
    """Neither a tensor nor plain, and why; `whole`: that is known when it is made, so that it can be carried whole."""

    reason: str
    whole: bool = False


@dataclass(frozen=True, slots=True)
class _Tuple:
    """Several, of different kinds."""

    kinds: tuple[_Kind, ...]


_Kind = _Is | _Other | _Tuple

_IN_BRANCHES = _Other("is a tensor in one place and none in another", whole=True)
_OF_A_TENSOR = _Other("depends on a tensor", whole=True)
_OF_A_FORM = _Other("depends on the shape of a tensor", whole=True)
_TOO_LONG = _Other("is computed in too many steps")
_IN_A_LOOP = _Other("is made in a loop", whole=True)
_FILLED = _Other("is filled on the way", whole=True)
_TENSORS_BY_KEY = _Other("is a dictionary of tensors that is not returned as it is written", whole=True)
_COMPUTED = _Other("is computed from several values", whole=True)  # [x] * 4


@dataclass(slots=True)
class _Binding:
    """What a name is bound to: an expression, or the part of it at `index`, or something that cannot be known."""

    value: ast.expr | None
    index: int | None = None
    annotation: ast.expr | None = None


@dataclass(slots=True)
class _Scope:
    """Names of a function or of a module."""

    above: _Scope | None
    file: str
    params: Mapping[str, _Kind] = field(default_factory=dict)
    bindings: dict[str, list[_Binding]] = field(default_factory=dict)
    items: dict[str, list[tuple[str, ast.expr]]] = field(default_factory=dict)  # name["key"] = expression
    loose: set[str] = field(default_factory=set)  # names of dictionaries and lists that are filled in other ways
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)  # name -> dotted name

    def take(self, body: Sequence[ast.stmt]) -> None:
        """Note what the statements bind, those in branches and loops too."""
        for node in body:
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.imports[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._bind(node.target, node.value, node.annotation)
            elif isinstance(node, ast.For):
                self._bind(node.target, ast.Subscript(node.iter, ast.Name("_", ast.Load()), ast.Load()))
            elif isinstance(node, ast.With):
                for item in node.items:
                    if isinstance(item.optional_vars, ast.Name):
                        self.bindings.setdefault(item.optional_vars.id, []).append(_Binding(None))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                called = node.value.func
                if isinstance(called, ast.Attribute) and (filled := _root(called.value)):
                    self.loose.add(filled)  # xs.append(...), xs["a"].append(...)
            for block in _blocks(node):
                self.take(block)

    def _bind(self, target: ast.expr, value: ast.expr, annotation: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            self.bindings.setdefault(target.id, []).append(_Binding(value, None, annotation))
        elif isinstance(target, ast.Tuple | ast.List):
            pairs = value.elts if isinstance(value, ast.Tuple | ast.List) else None
            if pairs is not None and len(pairs) == len(target.elts):
                for inner, each in zip(target.elts, pairs, strict=True):
                    self._bind(inner, each)
                return
            for index, inner in enumerate(target.elts):
                if isinstance(inner, ast.Name):
                    self.bindings.setdefault(inner.id, []).append(_Binding(value, index))
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            key = target.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                self.items.setdefault(target.value.id, []).append((key.value, value))
            else:
                self.loose.add(target.value.id)


def _root(node: ast.expr) -> str:
    """The name that stands at the front of a part of it; "" where none does."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The statements within a statement, other than those of a function or a class."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return []
    found = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    return found + [handler.body for handler in getattr(node, "handlers", [])]


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        for block in _blocks(node):
            yield from _statements(block)


def _returns(function: ast.FunctionDef) -> list[ast.expr]:
    found = [node.value for node in _statements(function.body) if isinstance(node, ast.Return)]
    return [value for value in found if value is not None]


def parameters(function: ast.FunctionDef) -> list[ast.arg]:
    """What a function takes, less a star's."""
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]


class Files:
    """The modules of a task, by the names that they are imported by."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self._scopes: dict[str, _Scope] = {}
        self._steps = 0
        self._busy: set[tuple[int, str]] = set()
        self._circles = 0  # met so far
        self._known: dict[tuple[int, str], tuple[_Scope, _Kind]] = {}  # the scope too, so that no other has its id
        for name, tree in trees.items():
            scope = _Scope(None, name)
            scope.take(tree.body)
            self._scopes[name] = scope

    def function(self, name: str, file: str) -> tuple[ast.FunctionDef, str] | None:
        """The function that a module has by that name, its own or imported from another one, and where it stands."""
        scope, name = self._home(name, file, lambda scope: scope.functions)
        return (scope.functions[name], scope.file) if scope is not None else None

    def bound(self, name: str, file: str) -> ast.expr | None:
        """What a module's name is bound to last."""
        scope, name = self._home(name, file, lambda scope: scope.bindings)
        return scope.bindings[name][-1].value if scope is not None else None

    def _home(self, name: str, file: str, where: Callable[[_Scope], Collection[str]]) -> tuple[_Scope | None, str]:
        """The module that a name comes from, through imports, and what it is called there."""
        for _ in range(MAX_DEPTH):
            scope = self._scopes.get(file)
            if scope is None or name in where(scope):
                return scope, name
            file, _, name = scope.imports.get(name, "").rpartition(".")
        return None, name

    # -- data ----------------------------------------------------------------------------------------------------------

    def read(self, function: ast.FunctionDef, file: str, kernel: ast.FunctionDef, kernel_file: str) -> Data:
        """What `function` (generate_input) returns, to be passed to `kernel`. Raises UnclearError."""
        try:
            return _Data(self, function, file, kernel, kernel_file).read()
        except UnclearError as error:
            if not error.whole:
                raise
        classes = self._classes(self.reached(function, file), file)
        mutable = any(map(_writes, (*self.reached(kernel, kernel_file), *classes.values())))
        return Data(None, mutable=mutable, classes=tuple(sorted(name for home, name in classes if home == REFERENCE)))

    def _classes(self, reached: Sequence[ast.AST], file: str) -> dict[tuple[str, str], ast.ClassDef]:
        """The classes of the task's files that these name, and those that they name in turn, by file and name."""
        found: dict[tuple[str, str], ast.ClassDef] = {}
        waiting = [(node, file) for node in reached]
        while waiting:
            here, file = waiting.pop()
            for node in ast.walk(here):
                if not isinstance(node, ast.Name):
                    continue
                scope, name = self._home(node.id, file, lambda scope: scope.classes)
                if scope is not None and (scope.file, name) not in found:
                    found[scope.file, name] = scope.classes[name]
                    waiting.append((scope.classes[name], scope.file))
        return found

    def outputs(self, kernel: ast.FunctionDef, file: str) -> int | None:
        """How many tensors the kernel returns in a tuple; None where it returns one tensor, MANY where neither it nor
        output_t says how many."""
        scope = self.within(kernel, file, {arg.arg: _Is.TENSOR for arg in parameters(kernel)})
        hint = self.hint("output_t", file)
        said = len(hint) if isinstance(hint, tuple) else None
        for value in reversed(_returns(kernel)):
            place = value
            if isinstance(value, ast.Name) and len(bound := scope.bindings.get(value.id, [])) == 1:
                place = bound[0].value if bound[0].index is None and bound[0].value is not None else value
            if isinstance(place, ast.Tuple | ast.List):
                return len(place.elts)
            kind = self.kind(value, scope)
            if isinstance(kind, _Tuple):
                return len(kind.kinds)
            if kind is _Is.TENSOR:
                return None
            if said is None and (kind is _Is.TENSORS or kind is _IN_A_LOOP or kind is _FILLED):
                return MANY
        return said

    def hint(self, name: str, file: str) -> _Hint:
        """What a type alias says: "tensor", a tuple of that, or "" for all else."""
        value = self.bound(name, file) or self.bound(name, TYPES)
        return _hint(value) if value is not None else ""

    def within(
        self,
        function: ast.FunctionDef,
        file: str,
        params: Mapping[str, _Kind],
        above: _Scope | None = None,
    ) -> _Scope:
        """The names in a function."""
        self._steps += sum(1 for _ in _statements(function.body))  # each call looks through it again
        scope = _Scope(above or self._scopes[file], file, params)
        scope.take(function.body)
        return scope

    # -- kinds ---------------------------------------------------------------------------------------------------------

    def kind(self, node: ast.expr, scope: _Scope, depth: int = 0) -> _Kind:
        """What an expression is."""
        self._steps += 1
        if depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return _TOO_LONG
        deeper = depth + 1
        if isinstance(node, ast.Constant):
            return _Is.PLAIN
        if isinstance(node, ast.Name):
            return self._named(node.id, scope, deeper)
        if isinstance(node, ast.Tuple | ast.List):
            kinds = tuple(self.kind(each, scope, deeper) for each in node.elts)
            return _Is.PLAIN if all(kind is _Is.PLAIN for kind in kinds) else _Tuple(kinds)
        if isinstance(node, ast.Dict):
            kinds = tuple(self.kind(each, scope, deeper) for each in node.values)
            plain = all(kind is _Is.PLAIN for kind in kinds) and None not in node.keys
            return _Is.PLAIN if plain else _TENSORS_BY_KEY
        if isinstance(node, ast.Subscript):
            return self._part_of(self.kind(node.value, scope, deeper), node.slice)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope, deeper)
        if isinstance(node, ast.Call):
            return self._called(node, scope, deeper)
        if isinstance(node, ast.IfExp):
            found = _same([self.kind(node.body, scope, deeper), self.kind(node.orelse, scope, deeper)])
            decided = self.kind(node.test, scope, deeper) if found is _Is.PLAIN else found
            return found if decided is found else _computed([decided])
        if isinstance(node, ast.JoinedStr | ast.FormattedValue | ast.Lambda | ast.Starred):
            return _Other("is a text or a function that is made on the way")
        if isinstance(node, ast.ListComp | ast.DictComp | ast.SetComp | ast.GeneratorExp):
            return _IN_A_LOOP
        inner = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return _mixed([self.kind(each, scope, deeper) for each in inner])  # arithmetic, comparisons, conditions

    def _named(self, name: str, scope: _Scope, depth: int) -> _Kind:
        here: _Scope | None = scope
        while here is not None:
            if name in here.params or name in here.bindings:
                return self._bound_to(name, here, depth)
            if name in here.functions or name in here.classes:
                return _Other(f"is {name} itself, and no value of it")
            if name in here.imports:
                file, _, original = here.imports[name].rpartition(".")
                if file in self._scopes:
                    return self._named(original, self._scopes[file], depth)
                return _Is.PLAIN if file == "torch" else _Other(f"is {here.imports[name]}")
            here = here.above
        return _Other(f"is {name}, which is bound nowhere")

    def _bound_to(self, name: str, scope: _Scope, depth: int) -> _Kind:
        at = (id(scope), name)
        if at in self._known:
            return self._known[at][1]
        if at in self._busy:
            self._circles += 1
            raise _CircleError
        before = self._circles
        self._busy.add(at)
        kinds = [scope.params[name]] if name in scope.params else []
        try:
            for binding in scope.bindings.get(name, ()):
                try:
                    kinds.append(self._binding(binding, scope, depth))
                except _CircleError:  # x = x * 2: what x was before decides
                    continue
        finally:
            self._busy.discard(at)
        found = self._filled(name, kinds, scope, depth)
        if self._circles == before and found is not _TOO_LONG:
            self._known[at] = (scope, found)
        return found

    def _filled(self, name: str, kinds: Sequence[_Kind], scope: _Scope, depth: int) -> _Kind:
        """What is bound to one of these, and perhaps filled afterwards."""
        if name in scope.loose and any(kind is _Is.PLAIN or isinstance(kind, _Tuple) for kind in kinds):
            return _FILLED
        if any(self.kind(value, scope, depth) is not _Is.PLAIN for _, value in scope.items.get(name, ())):
            return _TENSORS_BY_KEY
        return _same(kinds)

    def _binding(self, binding: _Binding, scope: _Scope, depth: int) -> _Kind:
        if binding.value is None:
            return _Other("is bound by a with statement")
        kind = self.kind(binding.value, scope, depth)
        if binding.index is not None:
            kind = self._part_of(kind, ast.Constant(binding.index))
        return _Is.TENSOR if isinstance(kind, _Other) and _says_tensor(binding.annotation) else kind

    @staticmethod
    def _part_of(kind: _Kind, key: ast.expr) -> _Kind:
        if kind is _Is.TENSORS:
            return _Is.TENSOR
        if isinstance(kind, _Tuple):
            index = key.value if isinstance(key, ast.Constant) else None
            if isinstance(index, int) and -len(kind.kinds) <= index < len(kind.kinds):
                return kind.kinds[index]
            return _same(kind.kinds)
        return kind

    def _attribute(self, node: ast.Attribute, scope: _Scope, depth: int) -> _Kind:
        dotted = self.dotted(node, scope)
        if dotted.startswith("torch."):
            return _Is.PLAIN  # a dtype
        if dotted:
            return _Is.PLAIN if dotted.startswith("math.") else _Other(f"is {dotted}")
        kind = self.kind(node.value, scope, depth)
        if kind is _Is.TENSOR:
            return _figure(node.attr) if node.attr in _FIGURES else _Is.TENSOR
        tensors = kind is _Is.TENSORS or (isinstance(kind, _Tuple) and all(each is _Is.TENSOR for each in kind.kinds))
        return _Is.TENSOR if tensors else kind  # torch.sort(x).values

    def dotted(self, node: ast.expr, scope: _Scope) -> str:
        """The full name of what an import brought; "" for all else."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        here: _Scope | None = scope
        while here is not None:
            if node.id in here.params or node.id in here.bindings:
                return ""
            if node.id in here.imports:
                return ".".join((here.imports[node.id], *reversed(names)))
            here = here.above
        return ""

    def _called(self, node: ast.Call, scope: _Scope, depth: int) -> _Kind:
        given = [*node.args, *(k.value for k in node.keywords)]
        called = node.func
        if isinstance(called, ast.Name) and (found := self._own(called.id, scope)) is not None:
            function, home = found
            return self._returned(function, home, node, scope, depth)
        dotted = self.dotted(called, scope)
        file, _, last = dotted.rpartition(".")
        if dotted and (own := self.function(last, file)) is not None:
            return self._returned(own[0], self._scopes[own[1]], node, scope, depth)
        if dotted.startswith("torch."):
            return self._of_torch(dotted, last, node, scope, depth)
        if dotted.startswith("math."):
            return _computed([self.kind(each, scope, depth) for each in given])
        if dotted:
            return _Other(f"is made by {dotted}()")
        if isinstance(called, ast.Name):
            return self._of_python(called.id, given, scope, depth)
        if not isinstance(called, ast.Attribute):
            return _Other("is made by a call that cannot be followed")
        if called.attr in ("sample", "rsample"):  # of a distribution
            return _Is.TENSOR
        kind = self.kind(called.value, scope, depth)
        if kind is _Is.TENSOR:
            return _figure(called.attr) if called.attr in _FIGURES else _several(called.attr, node, 0)
        if kind is _Is.PLAIN:
            return _mixed([kind, *(self.kind(each, scope, depth) for each in given)])
        return kind if isinstance(kind, _Other) else _Other(f"is made by .{called.attr}() of several tensors")

    def _own(self, name: str, scope: _Scope) -> tuple[ast.FunctionDef, _Scope] | None:
        here: _Scope | None = scope
        while here is not None:
            if name in here.functions:
                return here.functions[name], here
            if name in here.params or name in here.bindings:
                return None
            here = here.above
        return None

    def _returned(self, function: ast.FunctionDef, home: _Scope, call: ast.Call, scope: _Scope, depth: int) -> _Kind:
        """What a call of one of the task's own functions gives."""
        names = [arg.arg for arg in parameters(function)]
        params: dict[str, _Kind] = dict.fromkeys(names, _Is.PLAIN)  # a default, where nothing is given
        for name, value in zip(names, call.args, strict=False):
            params[name] = self.kind(value, scope, depth)
        for keyword_ in call.keywords:
            if keyword_.arg is not None:
                params[keyword_.arg] = self.kind(keyword_.value, scope, depth)
        at = (id(function), "()")
        if at in self._busy:
            raise _CircleError
        self._busy.add(at)
        kinds: list[_Kind] = []
        try:
            inner = self.within(function, home.file, params, home)
            for value in _returns(function):
                try:
                    kinds.append(self.kind(value, inner, depth))
                except _CircleError:  # it calls itself: what it returns otherwise decides
                    continue
        finally:
            self._busy.discard(at)
        found = _same(kinds)
        said = _hint(function.returns) if function.returns is not None else ""
        if said == "tensor" and isinstance(found, _Other):
            return _Is.TENSOR
        several = isinstance(said, tuple) and bool(said) and all(each == "tensor" for each in said)
        clear = isinstance(found, _Tuple) and not any(isinstance(each, _Other) for each in found.kinds)
        return (
            _Tuple((_Is.TENSOR,) * len(said)) if several and not clear and isinstance(found, _Tuple | _Other) else found
        )

    def reached(self, function: ast.FunctionDef, file: str) -> list[ast.FunctionDef]:
        """The function and those of the task's files that it calls, in turn."""
        found = {id(function): function}
        waiting = [(function, file)]
        while waiting:
            here, file = waiting.pop()
            for node in ast.walk(here):
                own = self.function(node.id, file) if isinstance(node, ast.Name) else None
                if own is not None and id(own[0]) not in found:
                    found[id(own[0])] = own[0]
                    waiting.append(own)
        return list(found.values())

    def _of_torch(self, dotted: str, last: str, node: ast.Call, scope: _Scope, depth: int) -> _Kind:
        if last in _TENSOR_CLASSES:
            return _Is.TENSOR
        if last in _OF_TORCH:
            given = [*node.args, *(k.value for k in node.keywords)]
            return _mixed([_Is.PLAIN, *(self.kind(each, scope, depth) for each in given)])
        if last in _NO_VALUE or dotted.startswith(("torch.cuda.", "torch.backends.")):
            return _Other(f"is what {dotted}() gives")
        if last[:1].isupper():
            return _Other(f"is a {last}, which has a state of its own", whole=dotted.startswith("torch.nn."))
        return _several(last, node, 1)

    def _of_python(self, name: str, given: Sequence[ast.expr], scope: _Scope, depth: int) -> _Kind:
        kinds = [self.kind(each, scope, depth) for each in given]
        where: _Scope | None = scope
        while where is not None and name not in where.classes:
            where = where.above
        if where is not None:
            if not _is_record(where.classes[name]):
                return _Other(f"is a {name}, which has a state of its own", whole=True)
            if any(kind is not _Is.PLAIN for kind in kinds):
                return _Other(f"is a {name}, which holds more than plain values", whole=True)
        elif name not in _PLAIN_CALLS:
            return _Other(f"is made by {name}()")
        return _computed(kinds)


_Hint = str | tuple["_Hint", ...]


class _CircleError(Exception):
    """A name stands for itself."""


def _same(kinds: Sequence[_Kind]) -> _Kind:
    """The kind of what is one of several."""
    if not kinds:
        return _Other("stands for itself")
    first = kinds[0]
    if all(kind == first for kind in kinds):
        return first
    tuples = [kind for kind in kinds if isinstance(kind, _Tuple)]
    if len(tuples) == len(kinds) and len({len(kind.kinds) for kind in tuples}) == 1:
        return _Tuple(tuple(_same(each) for each in zip(*(kind.kinds for kind in tuples), strict=True)))
    return next((kind for kind in kinds if isinstance(kind, _Other)), _IN_BRANCHES)


def _mixed(kinds: Sequence[_Kind]) -> _Kind:
    """The kind of what is computed from several: with a tensor it is one."""
    if any(kind is _Is.TENSOR or kind is _Is.TENSORS for kind in kinds):
        return _Is.TENSOR
    if all(kind is _Is.PLAIN for kind in kinds):
        return _Is.PLAIN
    return next((kind for kind in kinds if isinstance(kind, _Other)), _COMPUTED)


def _computed(kinds: Sequence[_Kind]) -> _Kind:
    """The kind of a plain value that Python computes from these."""
    if all(kind is _Is.PLAIN for kind in kinds):
        return _Is.PLAIN
    return next((kind for kind in kinds if isinstance(kind, _Other)), _OF_A_TENSOR)


def _figure(name: str) -> _Other:
    """The kind of a method or attribute of a tensor that is none."""
    return _OF_A_FORM if name in _FORM_FIGURES else _OF_A_TENSOR


def _several(name: str, call: ast.Call, place: int) -> _Kind:
    """What a function of torch, or a method of a tensor, gives; of max and min two with a dimension at `place`."""
    dims = [*call.args[place : place + 1], *(k.value for k in call.keywords if k.arg == "dim")]
    by_dimension = any(isinstance(dim, ast.Constant | ast.UnaryOp) for dim in dims)
    count = 2 if name in ("max", "min", "median") and by_dimension else _COUNTS.get(name, 1)
    if name in _SEVERAL:
        return _Is.TENSORS
    return _Is.TENSOR if count == 1 else _Tuple((_Is.TENSOR,) * count)


def _is_record(node: ast.ClassDef) -> bool:
    """Whether a class only holds what it is made of: a dataclass, a NamedTuple, a TypedDict."""
    marks = [ast.unparse(mark).partition("(")[0].rpartition(".")[2] for mark in node.decorator_list]
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return "dataclass" in marks or bool({"NamedTuple", "TypedDict"}.intersection(bases))


def _forms(function: ast.FunctionDef) -> bool:
    """Whether a function may make tensors with strides of their own, or in an exotic dtype."""
    return any(
        isinstance(node, ast.Attribute) and (node.attr in _LAYOUTS or node.attr in EXOTIC)
        for node in ast.walk(function)
    )


def _says_tensor(node: ast.expr | None) -> bool:
    return node is not None and _hint(node) == "tensor"


def _hint(node: ast.expr, depth: int = 0) -> _Hint:
    if depth > MAX_DEPTH:
        return ""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "tensor" if node.value.rpartition(".")[2] == "Tensor" else ""
    if isinstance(node, ast.Name | ast.Attribute):
        return "tensor" if (node.id if isinstance(node, ast.Name) else node.attr) == "Tensor" else ""
    if isinstance(node, ast.Call):  # TypeVar("input_t", bound=...)
        bound = next((k.value for k in node.keywords if k.arg == "bound"), None)
        return _hint(bound, depth + 1) if bound is not None else ""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).rpartition(".")[2] in ("tuple", "Tuple"):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return tuple(_hint(each, depth + 1) for each in inner)
    return ""


# -- what is returned --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Leaf:
    node: ast.expr | None  # None where only the type alias says that it is there
    kind: _Kind


@dataclass(slots=True)
class _Several:
    kind: str
    parts: list[_Leaf | _Several]
    keys: tuple[str, ...] = ()


class _Data:
    """One generate_input(), as it is read."""

    def __init__(
        self, files: Files, function: ast.FunctionDef, file: str, kernel: ast.FunctionDef, kernel_file: str
    ) -> None:
        self._files = files
        self._function = function
        self._file = file
        self._kernel = kernel
        self._hint = files.hint("input_t", kernel_file) or files.hint("input_t", file)
        params: dict[str, _Kind] = {arg.arg: _Is.PLAIN for arg in parameters(function)}
        self._scope = files.within(function, file, params)
        self._names: set[str] = {*params, FORM}
        self._values: dict[str, ast.expr] = {}
        self._given: dict[str, Part] = {}  # what a returned name has become
        self._buffers: set[str] = set()  # tensors that are made empty

    def read(self) -> Data:
        found = [self._shape(value) for value in _returns(self._function)]
        if not found:
            raise UnclearError(self._function.lineno, "generate_input returns nothing", "return the tensors in a tuple")
        if any(_form(each) != _form(found[-1]) for each in found):
            line = self._function.lineno
            told, fix = "generate_input returns in several forms", "end every branch in the same one"
            raise UnclearError(line, told, fix, whole=True)
        shape = self._by_hint(found[-1])
        names = self._unpacked(len(shape.parts) if isinstance(shape, _Several) else 0)
        root = self._part(shape, "data" if isinstance(shape, _Leaf) else "", names)
        if not any(isinstance(leaf, Tensor) for leaf, _ in leaves(root, "")):
            raise UnclearError(self._function.lineno, "generate_input returns no tensor", "return the tensors")
        formed = any(map(_forms, self._files.reached(self._function, self._file)))
        written = _written(self._kernel, root) | (self._buffers & _unread(self._kernel, root))
        return Data(_marked(root, written), self._function_of_values(), formed)

    def _shape(self, node: ast.expr, depth: int = 0) -> _Leaf | _Several:
        """Tuples, lists and dictionaries as they are written, with names looked up."""
        scope = self._scope
        kind = self._files.kind(node, scope)
        if kind is _Is.PLAIN and depth:
            return _Leaf(node, kind)
        if depth > MAX_DEPTH:
            return _Leaf(node, _TOO_LONG)
        place = node
        items: list[tuple[str, ast.expr]] = []
        if (
            isinstance(node, ast.Name)
            and len(bound := scope.bindings.get(node.id, [])) == 1
            and not scope.params.get(node.id)
        ):
            if bound[0].index is None and bound[0].value is not None and node.id not in scope.loose:
                place = bound[0].value
            items = scope.items.get(node.id, [])
        if isinstance(place, ast.Tuple | ast.List) and not any(isinstance(e, ast.Starred) for e in place.elts):
            parts = [self._shape(each, depth + 1) for each in place.elts]
            return _Several("tuple" if isinstance(place, ast.Tuple) else "list", parts)
        pairs = _pairs(place)
        if pairs is not None:
            filled = dict([*pairs, *items])
            if not all(self._files.kind(each, scope) is _Is.PLAIN for each in filled.values()):
                return _Several("dict", [self._shape(each, depth + 1) for each in filled.values()], tuple(filled))
        if place is not node and isinstance(place, ast.Name):
            return self._shape(place, depth + 1)
        if isinstance(kind, _Tuple):
            return _Several("tuple", [_Leaf(None, each) for each in kind.kinds])
        return _Leaf(node, kind)

    def _by_hint(self, shape: _Leaf | _Several) -> _Leaf | _Several:
        """The same, where the type alias knows of a tensor what the code does not show."""
        hint = self._hint
        if isinstance(shape, _Leaf):
            if isinstance(shape.kind, _Is) or shape.kind is _IN_BRANCHES:
                return shape
            if isinstance(hint, tuple) and hint and all(each == "tensor" for each in hint):
                return _Several("tuple", [_Leaf(None, _Is.TENSOR) for _ in hint])
            return _Leaf(shape.node, _Is.TENSOR) if hint == "tensor" else shape
        if isinstance(hint, tuple) and len(hint) == len(shape.parts):
            for part, said in zip(shape.parts, hint, strict=True):
                known = isinstance(part, _Leaf) and (isinstance(part.kind, _Is) or part.kind is _IN_BRANCHES)
                if isinstance(part, _Leaf) and not known and said == "tensor":
                    part.kind = _Is.TENSOR
        return shape

    def _unpacked(self, count: int) -> list[str]:
        """The names that the kernel gives to the `count` parts of its data, as far as it does."""
        given = parameters(self._kernel)
        for node in _statements(self._kernel.body):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and given:
                target = node.targets[0]
                if node.value.id != given[0].arg or not isinstance(target, ast.Tuple | ast.List):
                    continue
                star = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), None)
                if star is None and len(target.elts) != count:
                    return []
                return [each.id if isinstance(each, ast.Name) else "" for each in target.elts[:star]]
        return []

    def _part(self, shape: _Leaf | _Several, name: str, names: Sequence[str] = ()) -> Part:
        if isinstance(shape, _Several):
            inner: list[Part] = []
            for index, each in enumerate(shape.parts):
                own = _called(each)
                usual = names[index] if index < len(names) else ""
                key = shape.keys[index] if shape.keys else ""
                stem = "_".join(filter(None, (name, key))) if key else own or usual or f"{name or 'x'}{index}"
                inner.append(self._part(each, stem))
            return Group(shape.kind, tuple(inner), shape.keys)
        node, kind = shape.node, shape.kind
        written = ast.unparse(node) if isinstance(node, ast.Name) else ""
        if written in self._given:
            return self._given[written]
        if isinstance(kind, _Is) and kind is not _Is.TENSORS:
            made = self._leaf(node, kind, self._free(name))
            if written:
                self._given[written] = made
            return made
        told = kind.reason if isinstance(kind, _Other) else "is several tensors, of which nobody says how many"
        whole = kind.whole if isinstance(kind, _Other) else True
        line = node.lineno if node is not None else self._function.lineno
        shown = ast.unparse(node)[:60] if node is not None else name
        fix = "data may hold tensors, and plain values that follow from the case"
        raise UnclearError(line, f"{shown} {told}", fix, whole=whole)

    def _leaf(self, node: ast.expr | None, kind: _Is, name: str) -> Tensor | Value:
        if kind is _Is.TENSOR:
            if self._empty(node):
                self._buffers.add(name)
            return Tensor(name)
        assert node is not None
        fixed = not any(isinstance(each, ast.Name) for each in ast.walk(node))
        if not fixed:
            self._values[name] = node
        return Value(name, ast.unparse(node), fixed)

    def _empty(self, node: ast.expr | None) -> bool:
        """Whether a tensor is made by one of _EMPTY, as far as its name and a chain of methods show."""
        for _ in range(MAX_DEPTH):
            if isinstance(node, ast.Name):
                bound = self._scope.bindings.get(node.id, [])
                if len(bound) != 1 or bound[0].index is not None or node.id in self._scope.params:
                    return False
                node = bound[0].value
            elif isinstance(node, ast.Call):
                dotted = self._files.dotted(node.func, self._scope)
                named = node.func.attr if isinstance(node.func, ast.Attribute) else dotted.rpartition(".")[2]
                if named in _EMPTY or dotted:
                    return named in _EMPTY
                node = node.func.value if isinstance(node.func, ast.Attribute) else None
            else:
                return False
        return False

    def _free(self, wanted: str) -> str:
        """A name for an argument of run() that no other has."""
        stem = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in wanted)
        stem = stem if stem[:1].isalpha() and not keyword.iskeyword(stem) else f"x_{stem}"
        stem = f"{stem}_in" if stem.startswith("out") else stem  # those are the outputs
        name, number = stem, 2
        while name in self._names:
            name, number = f"{stem}_{number}", number + 1
        self._names.add(name)
        return name

    # -- values --------------------------------------------------------------------------------------------------------

    def _function_of_values(self) -> str:
        """The statements that the values hang on, as a function of the case."""
        if not self._values:
            return ""
        needed = {each.id for value in self._values.values() for each in ast.walk(value) if isinstance(each, ast.Name)}
        body = self._sliced(self._function.body, needed)
        inner = [*body, *(ast.Expr(value) for value in self._values.values())]
        if any(isinstance(n, ast.Name) and n.id == SEED for each in inner for n in ast.walk(each)):
            line = self._function.lineno
            told = f"{', '.join(self._values)} depends on the seed, which is another one for every set of values"
            raise UnclearError(line, told, "let plain values follow from the rest of the case")
        arguments = ast.arguments(
            posonlyargs=[],
            args=[],
            kwonlyargs=[ast.arg(arg.arg) for arg in parameters(self._function) if arg.arg != SEED],
            kw_defaults=[default for arg, default in defaults(self._function) if arg != SEED],
            defaults=[],
        )
        keys: list[ast.expr | None] = [ast.Constant(name) for name in self._values]
        body.append(ast.Return(ast.Dict(keys, list(self._values.values()))))
        made = ast.FunctionDef(name=VALUES, args=arguments, body=body, decorator_list=[])
        return ast.unparse(ast.fix_missing_locations(made))

    def _sliced(self, body: Sequence[ast.stmt], needed: set[str]) -> list[ast.stmt]:
        """The statements that bind what is needed, and what those need in turn; `needed` grows."""
        kept: list[ast.stmt] = []
        for node in reversed(body):
            if isinstance(node, ast.If):
                then, other = self._sliced(node.body, needed), self._sliced(node.orelse, needed)
                if then or other:
                    self._need(node.test, needed)
                    kept.append(ast.If(node.test, then or [ast.Pass()], other))
                continue
            bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            filled = isinstance(node, ast.Assign) and any(_filled(t) in needed for t in node.targets)
            if isinstance(node, ast.FunctionDef):
                bound = {node.name}
            if not (filled or bound & needed):
                continue
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.FunctionDef):
                told = f"{', '.join(sorted(bound & needed))} is bound in a loop or the like"
                raise UnclearError(node.lineno, told, "bind what plain values need by assignments", whole=True)
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                    self._need(each, needed)
            kept.append(node)
        return list(reversed(kept))

    @staticmethod
    def _need(node: ast.expr, needed: set[str]) -> None:
        needed |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def defaults(function: ast.FunctionDef) -> list[tuple[str, ast.expr | None]]:
    """The arguments of a function with their defaults, None for those that must be given."""
    plain = [*function.args.posonlyargs, *function.args.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(function.args.defaults))
    found = [*missing, *function.args.defaults, *function.args.kw_defaults]
    return [(arg.arg, default) for arg, default in zip(parameters(function), found, strict=True)]


def _form(shape: _Leaf | _Several) -> object:
    """What two returns must have in common."""
    if isinstance(shape, _Leaf):
        return shape.kind if isinstance(shape.kind, _Is) else "other"
    return shape.kind, shape.keys, tuple(_form(each) for each in shape.parts)


def _called(shape: _Leaf | _Several) -> str:
    """The name at the root of what is returned: `x` of `x.contiguous()`, and not that of a function."""
    node = shape.node if isinstance(shape, _Leaf) else None
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) and node.id not in ("torch", "F", "np", "math") else ""


def _pairs(node: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """The entries of a dictionary with written keys; None for all else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        named = [(k.arg, k.value) for k in node.keywords if k.arg is not None]
        return named if len(named) == len(node.keywords) else None
    if not isinstance(node, ast.Dict):
        return None
    pairs: list[tuple[str, ast.expr]] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            return None
        pairs.append((key.value, value))
    return pairs


def _filled(target: ast.expr) -> str:
    """The name of a dictionary of which one entry is set."""
    named = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name)
    return target.value.id if named and isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) else ""


# -- what a kernel writes into -----------------------------------------------------------------------------------------


def _marked(part: Part, written: Collection[str]) -> Part:
    if isinstance(part, Group):
        return Group(part.kind, tuple(_marked(each, written) for each in part.parts), part.keys)
    return Tensor(part.name, part.name in written) if isinstance(part, Tensor) else part


def _written(kernel: ast.FunctionDef, root: Part) -> set[str]:
    """The tensors of its data that a kernel writes into or returns: a kernel that does likewise does no wrong."""
    given = parameters(kernel)
    known: dict[str, Part] = {given[0].arg: root} if given else {}

    def of(node: ast.expr) -> Part | None:
        """The part of the data that an expression is, or is a view of a tensor of."""
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Subscript):
            part = of(node.value)
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if not isinstance(part, Group):
                return part
            if part.kind == "dict":
                return part.parts[part.keys.index(key)] if isinstance(key, str) and key in part.keys else None
            return part.parts[key] if isinstance(key, int) and 0 <= key < len(part.parts) else None
        return None

    found: set[str] = set()

    def write(node: ast.expr | None) -> None:
        part = of(node) if node is not None else None
        if isinstance(part, Tensor):
            found.add(part.name)

    for node in _statements(kernel.body):
        if isinstance(node, ast.Assign):
            value = of(node.value)
            for target in node.targets:
                if isinstance(target, ast.Subscript):
                    write(target.value)
                elif isinstance(target, ast.Name) and value is not None:
                    known[target.id] = value
                elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, Group):
                    for inner, part in zip(target.elts, value.parts, strict=False):
                        if isinstance(inner, ast.Name):
                            known[inner.id] = part
        elif isinstance(node, ast.AugAssign):
            write(node.target)
        elif isinstance(node, ast.Return) and node.value is not None:
            for each in node.value.elts if isinstance(node.value, ast.Tuple | ast.List) else [node.value]:
                write(each)
        for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") and call.func.attr[:1] != "_":
                write(call.func.value)
            for keyword_ in call.keywords:
                if keyword_.arg == "out":
                    write(keyword_.value)
    return found


def _unread(kernel: ast.FunctionDef, root: Part) -> set[str]:
    """The tensors of its data that a kernel unpacks and never looks at: what lies in them changes nothing."""
    given = parameters(kernel)
    if not given or not isinstance(root, Group):
        return set()
    whole = given[0].arg
    named = [node for node in ast.walk(kernel) if isinstance(node, ast.Name)]
    loaded = [node.id for node in named if isinstance(node.ctx, ast.Load)]
    for node in _statements(kernel.body):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == whole):
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Tuple | ast.List) or len(target.elts) != len(root.parts):
            return set()
        names = [each.id if isinstance(each, ast.Name) else "" for each in target.elts]
        if whole not in names and loaded.count(whole) > 1:
            return set()
        parts = zip(names, root.parts, strict=True)
        return {part.name for name, part in parts if name and name not in loaded and isinstance(part, Tensor)}
    return set()


def _writes(code: ast.AST) -> bool:
    """Whether code writes into something: by an index, by `out=`, by a method of torch that does so."""
    for node in ast.walk(code):
        stored = isinstance(node, ast.Assign) and any(isinstance(target, ast.Subscript) for target in node.targets)
        if stored or isinstance(node, ast.AugAssign):
            return True
        if isinstance(node, ast.Call):
            named = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            if (named.endswith("_") and named[:1] != "_") or any(each.arg == "out" for each in node.keywords):
                return True
    return False
