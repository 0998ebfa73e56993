"""Problems and candidates in KernelBench's form, of our own writing: text, as files hold it, and what is made of it."""

from __future__ import annotations

from pathlib import Path

from aisp.kernels.catalog.formats import kernelbench

MATMUL = '''\
import torch
import torch.nn as nn

M = 1024
K = M * 2
N = 512


class Model(nn.Module):
    """Product of two matrices."""

    def __init__(self):
        super(Model, self).__init__()

    def forward(self, A, B):
        return torch.matmul(A, B)


def get_inputs():
    A = torch.rand(M, K)
    B = torch.randn(K, N) * 0.5
    return [A, B]


def get_init_inputs():
    return []


if __name__ == "__main__":
    print(Model()(*get_inputs()))
'''

MATMUL_NEW = """\
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, A, B):
        return (B.t() @ A.t()).t().contiguous()
"""

LAYER = '''\
import torch
import torch.nn as nn

batch_size = 4096
in_features = 128
out_features = 64


class Model(nn.Module):
    """A linear layer, an activation, a bias."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.bias = nn.Parameter(torch.randn(out_features))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.bias


def get_inputs():
    return [torch.randn(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
'''

REORDERED = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(out_features))
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.linear(x, self.linear.weight, self.linear.bias).relu_().add_(self.bias)
"""

WITHOUT_BIAS = REORDERED.replace(".add_(self.bias)", "")

RENAMED = REORDERED.replace("self.linear", "self.dense")

CROSS_ENTROPY = '''\
import torch
import torch.nn as nn

batch_size = 4096
num_classes = 10
input_shape = (num_classes,)


class Model(nn.Module):
    """Mean cross-entropy of class indices."""

    def forward(self, predictions, targets):
        return torch.nn.functional.cross_entropy(predictions, targets)


def get_inputs():
    return [torch.randn(batch_size, *input_shape), torch.randint(0, num_classes, (batch_size,))]


def get_init_inputs():
    return []
'''

CROSS_ENTROPY_NEW = """\
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, predictions, targets):
        assert targets.dtype == torch.int64
        picked = torch.log_softmax(predictions, -1).gather(1, targets[:, None])
        return -picked.mean()
"""

TRIANGLES = '''\
import torch
import torch.nn as nn

N = 256


class Model(nn.Module):
    """Product of two lower triangles, which is one."""

    def forward(self, A, B):
        return torch.tril(A @ B)


def get_inputs():
    return [torch.randn(N, N).tril(), torch.randn(N, N).tril()]


def get_init_inputs():
    return []
'''

TRIANGLES_NEW = """\
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, A, B):
        return A @ B
"""  # there is nothing above the diagonal

SOFTMAX = '''\
import torch
import torch.nn as nn

batch_size = 4
dim = 65536


class Model(nn.Module):
    """Softmax over long rows, each value of which is small."""

    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(batch_size, dim)]


def get_init_inputs():
    return []
'''

ZEROS_NEW = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
"""

HELPED = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return self.parts(x)

    def parts(self, x):
        return {"sum": x.sum(1), "half": x / 2}


def get_inputs():
    return [torch.randn(64, 32)]
"""

HELPED_NEW = HELPED.replace("class Model(", "class ModelNew(").replace("x / 2", "x * 0.5")

HELPED_SHORT = HELPED_NEW.replace('"sum": x.sum(1), ', "")

TWO = '''\
import torch
import torch.nn as nn

rows = 128
columns = 64


class Model(nn.Module):
    """The largest value of each row, and where it stands."""

    def forward(self, x):
        values, places = x.max(dim=1)
        return values, places


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
'''

TWO_NEW = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        places = x.argmax(dim=1)
        return x.gather(1, places[:, None])[:, 0], places
"""

DROPOUT = '''\
import torch
import torch.nn as nn

batch_size = 64
features = 128


class Model(nn.Module):
    """A linear layer, batch norm and dropout, none of which is ever in eval()."""

    def __init__(self, features, rate):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.BatchNorm1d(features)
        self.dropout = nn.Dropout(rate)

    def forward(self, x):
        return torch.softmax(self.dropout(self.norm(self.linear(x))), dim=1)


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features, 0.2]
'''

DROPOUT_NEW = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    def __init__(self, features, rate):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)
        self.linear = nn.Linear(features, features)
        self.rate = rate

    def forward(self, x):
        x = self.linear(x)
        x = (x - x.mean(0)) * torch.rsqrt(x.var(0, correction=0) + self.norm.eps)
        x = x * self.norm.weight + self.norm.bias
        return torch.softmax(F.dropout(x, self.rate, training=True), dim=1)
"""

WITHOUT_DROPOUT = DROPOUT_NEW.replace("F.dropout(x, self.rate, training=True)", "x")

MADE = """\
import torch
import torch.nn as nn

N = 64


class Model(nn.Module):
    def forward(self, lower, x, factor, shape):
        return (lower @ x * factor).reshape(shape)


def get_inputs():
    return [torch.tril(torch.rand(N, N)), torch.rand(N, N), 3.5, [N * N]]


def get_init_inputs():
    return []
"""

MADE_NEW = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, lower, x, factor, shape):
        assert lower.triu(1).count_nonzero() == 0
        return torch.mm(lower * factor, x).reshape(shape)
"""

VIEW = MATMUL.replace("torch.matmul(A, B)", "torch.matmul(A, B).t()")
VIEW_NEW = MATMUL_NEW.replace("(B.t() @ A.t()).t().contiguous()", "B.t() @ A.t()")

WITHOUT_FP64 = MATMUL.replace("torch.matmul(A, B)", "torch.matmul(A, B) @ torch.ones(N, 3)")
WITHOUT_FP64_NEW = MATMUL_NEW.replace("(B.t() @ A.t()).t().contiguous()", "A @ (B @ torch.ones(B.shape[1], 3))")

ARGMAX = MATMUL.replace("torch.matmul(A, B)", "torch.argmax(A @ B, dim=1)")

SIDE_EFFECT = MATMUL.replace("M = 1024\n", 'M = 1024\nprint("loaded")\n')

BROKEN = MATMUL.replace("def forward(self, A, B):", "def forward(self, A, B:")


def written(folder: Path, problem: str, candidate: str) -> tuple[Path, Path]:
    """The paths of the candidate and of the problem."""
    level = folder / "KernelBench" / "level1"
    level.mkdir(parents=True, exist_ok=True)
    (level / "12_Of_ours_.py").write_text(problem)
    (folder / "answer.py").write_text(candidate)
    return folder / "answer.py", level / "12_Of_ours_.py"


def laid_out(folder: Path, problem: str, candidate: str) -> Path:
    """The target of the two, as the command lays it out."""
    parts = kernelbench.against(*written(folder, problem, candidate))
    assert not parts.problems
    place = folder / "12_Of_ours_" / "answer"
    place.mkdir(parents=True)
    for name, data in parts.files.items():
        (place / name).write_bytes(data)
    return place


RARE = """\
import torch
import torch.nn as nn

M, K = 256, 1024


class Model(nn.Module):
    def forward(self, x):
        return (x.mean(dim=1) > 0.5).float()


def get_inputs():
    return [torch.randn(M, K)]


def get_init_inputs():
    return []
"""
"""Of values that are drawn no mean is ever so large."""
RARE_NEW = RARE.replace("class Model", "class ModelNew").replace("(x.mean(dim=1) > 0.5).float()", "x.new_zeros(M)")

PACKED = """\
import random

import numpy as np
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = random.random() + np.random.rand()
        self.weight = nn.Parameter(torch.randn(n, n))

    def forward(self, x):
        return self.scale * (x @ self.weight)


def get_inputs():
    return [torch.randn(16, 32)]


def get_init_inputs():
    return [32]
"""
PACKED_NEW = (
    PACKED.replace("class Model", "class ModelNew")
    .replace("nn.Parameter(torch.randn(n, n))", "nn.Parameter(torch.randn(n, n).t().contiguous())")
    .replace("x @ self.weight", "x @ self.weight.t()")
)
"""It keeps its weight transposed, under the name that the Model's has."""
