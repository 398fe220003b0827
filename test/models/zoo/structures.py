"""How networks are put together: parameters and buffers of every kind, several inputs and outputs, containers, parametrizations."""
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import spectral_norm as old_spectral_norm
from torch.nn.utils import weight_norm as old_weight_norm

from .case import Calls, N, Net, rows

C = 3


def net(function, parameters=None, buffers=None, inputs=rows(C), **modules):
    """`modules`: name -> function that makes it; `parameters`: name -> function as well."""
    def build():
        return Calls(function, {n: make() for n, make in (parameters or {}).items()},
                     {n: make() for n, make in (buffers or {}).items()}, **{n: make() for n, make in modules.items()})
    return Net(build, inputs)


def linear():
    return nn.Linear(C, C)


class Scales(nn.Module):
    """A class token, a position table, a layer scale, a temperature without dims, a mask and an integer table as buffers."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, C))
        self.positions = nn.Parameter(torch.randn(1, C + 1, C))
        self.gamma = nn.Parameter(torch.randn(C))
        self.temperature = nn.Parameter(torch.tensor(0.7))
        self.inner = linear()
        self.register_buffer("mask", torch.tensor([True, False, True, True]))
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))
        self.register_buffer("count", torch.tensor(4))
        self.register_buffer("power", torch.tensor(2, dtype=torch.int32))

    def forward(self, x):
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], dim=1) + self.positions
        x = x.index_select(1, self.order).masked_fill(~self.mask[None, :, None], 0.5)
        return self.gamma * self.inner(x) / self.temperature.exp() + x.pow(self.power) / self.count


class Tied(nn.Module):
    """An embedding whose table is also the output layer, and a layer under two names that runs twice."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, C)
        self.inner = linear()
        self.again = self.inner
        self.head = nn.Linear(C, 5, bias=False)
        self.head.weight = self.table.weight
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x):
        return self.head(self.again(torch.tanh(self.inner(self.table(x))))) + self.bias


class Unused(nn.Module):
    """A module that never runs, a parameter that nothing reads, frozen ones."""

    def __init__(self):
        super().__init__()
        self.a, self.never, self.frozen = linear(), nn.Conv2d(C, C, 3), linear()
        self.nothing = nn.Parameter(torch.randn(C))
        self.frozen.requires_grad_(False)
        self.last = linear()
        self.last.bias.requires_grad_(False)

    def forward(self, x):
        return self.last(torch.tanh(self.frozen(self.a(x))))


class Pair(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor


class Gaussian(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = linear(), linear()

    def forward(self, x):
        return Pair(self.a(x), F.softplus(self.b(x)))


class Dicts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"left": linear(), "right": linear()})

    def forward(self, x):
        found: Dict[str, torch.Tensor] = {}
        for name, layer in self.layers.items():
            found[name] = layer(x)
        found["sum"] = found["left"] + found["right"]
        return found


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([linear() for _ in range(3)])

    def forward(self, x) -> Tuple[torch.Tensor, List[torch.Tensor]]:
        outs: List[torch.Tensor] = []
        for layer in self.layers:
            x = torch.tanh(layer(x))
            outs.append(x)
        return torch.stack(outs).sum(0), outs


class Several(nn.Module):
    """Two inputs of other ranks, one of tokens; two outputs."""

    def __init__(self):
        super().__init__()
        self.table, self.inner = nn.Embedding(5, C), nn.Bilinear(C, C, C)

    def forward(self, x, tokens):
        y = self.table(tokens).mean(1)
        return self.inner(x, y), x @ y.t()


class Maybe(nn.Module):
    """Inputs that may be missing, and an optional child."""

    def __init__(self):
        super().__init__()
        self.inner = linear()
        self.extra: Optional[nn.Linear] = linear()
        self.gone: Optional[nn.Linear] = None

    def forward(self, x, mask: Optional[torch.Tensor] = None, scale: float = 2.0):
        y = self.inner(x)
        if mask is not None:
            y = y * mask
        extra = self.extra
        if extra is not None:
            y = extra(y)
        gone = self.gone
        if gone is not None:
            y = gone(y)
        return scale * y


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


def parametrized(make):
    return lambda: nn.Sequential(make(), nn.Tanh(), nn.Linear(C, 2))


class WeightScale(nn.Module):
    """A dtype dance: half precision inside, integers, complex numbers, booleans."""

    def __init__(self):
        super().__init__()
        self.a, self.phase = linear(), nn.Parameter(torch.randn(C))
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        y = self.a(x)
        z = torch.polar(torch.ones_like(y), y * self.phase)
        spectrum = torch.fft.fft(z * y)
        steps = torch.floor(y * 3).to(torch.int64)
        low = (y.float() * self.scale).to(x.dtype)
        return torch.view_as_real(spectrum).flatten(1), steps % 3, (y > 0) ^ (low > 1), low + steps


class Promotes(nn.Module):
    """Parameters and buffers without dims: stacked they are [K], and must not begin to promote."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(C, C)
        self.register_buffer("wide", torch.tensor(0.5, dtype=torch.float64))
        self.register_buffer("times", torch.tensor(3))
        self.scale = nn.Parameter(torch.tensor(0.3))

    def _apply(self, fn, recurse=True):  # .to(dtype) leaves the buffer in double precision
        wide = self.wide
        super()._apply(fn, recurse)
        self.wide = wide
        return self

    def forward(self, x):
        y = self.inner(x.float()).float()
        a = y * self.wide
        b = torch.where(y > 0, y, self.wide.to(y.dtype))
        c = (y * 10).to(torch.int32) * self.times
        d = torch.stack([y, y * self.scale])
        e = torch.maximum(y, self.scale) + torch.clamp(y, max=self.wide)
        return a.to(x.dtype), b, c, d, e.to(x.dtype)


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(C, 4), nn.Linear(4, C)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.relu(self.a(x))
            y = self.b(y)
        return y.float().softmax(-1)


def several():
    return torch.randn(N, C, dtype=torch.float64), torch.randint(0, 5, (N, 4))


NETS = {
    "raw parameters": Net(Scales, rows(C, C), quick=True),
    "raw parameters, script": Net(Scales, rows(C, C), "script"),
    "tied": Net(Tied, lambda: (torch.randint(0, 5, (N, 4)),)),
    "tied, script": Net(Tied, lambda: (torch.randint(0, 5, (N, 4)),), "script"),
    "unused and frozen": Net(Unused, rows(C)),
    "unused and frozen, script": Net(Unused, rows(C), "script"),
    "named tuple": Net(Gaussian, rows(C)),
    "named tuple, script": Net(Gaussian, rows(C), "script"),
    "dict": Net(Dicts, rows(C)),
    "dict, script": Net(Dicts, rows(C), "script"),
    "nested tuple and list": Net(Nested, rows(C)),
    "nested tuple and list, script": Net(Nested, rows(C), "script"),
    "several": Net(Several, several),
    "several, script": Net(Several, several, "script"),
    "optional, not given, script": Net(Maybe, rows(C), "script"),
    "optional, given, script": Net(Maybe, lambda: (torch.randn(N, C, dtype=torch.float64), torch.rand(N, C, dtype=torch.float64)),
                                   "script"),
    "optional, trace": Net(Maybe, rows(C)),
    "weight_norm, old": Net(parametrized(lambda: old_weight_norm(linear())), rows(C)),
    "weight_norm, old, dim None": Net(parametrized(lambda: old_weight_norm(linear(), dim=None)), rows(C)),
    "weight_norm, old, conv": Net(lambda: nn.Sequential(old_weight_norm(nn.Conv1d(C, C, 1)), nn.Flatten(), nn.Linear(9, 2)),
                                  rows(C, C)),
    "weight_norm": Net(parametrized(lambda: parametrizations.weight_norm(linear())), rows(C)),
    "spectral_norm, old": Net(parametrized(lambda: old_spectral_norm(linear())), rows(C)),
    "spectral_norm": Net(parametrized(lambda: parametrizations.spectral_norm(linear())), rows(C)),
    "spectral_norm, conv": Net(lambda: nn.Sequential(parametrizations.spectral_norm(nn.Conv1d(C, C, 1)), nn.Flatten(),
                                                     nn.Linear(9, 2)), rows(C, C)),
    "orthogonal": Net(parametrized(lambda: parametrizations.orthogonal(linear(), orthogonal_map="cayley")), rows(C)),
    "own parametrization": Net(parametrized(lambda: _symmetric()), rows(C)),
    "dtypes": Net(WeightScale, rows(C)),
    "dtypes, script": Net(WeightScale, rows(C), "script"),
    "numbers without dims": Net(Promotes, rows(C), dtype=torch.float32),
    "numbers without dims, script": Net(Promotes, rows(C), "script", dtype=torch.float32),
    "autocast": Net(Autocast, rows(C), dtype=torch.float32),
    "autocast, script": Net(Autocast, rows(C), "script", dtype=torch.float32),
    "bf16": Net(lambda: nn.Sequential(nn.Linear(C, C), nn.GELU(), nn.Linear(C, C)), rows(C), dtype=torch.bfloat16),
    "complex weights": net(lambda net, x: torch.view_as_real((x + 0j) @ torch.view_as_complex(net.w)).flatten(1),
                           {"w": lambda: torch.randn(C, C, 2)}),
    "one dim": net(lambda net, x: (x * net.w).sum(-1), {"w": lambda: torch.randn(C)}),
    "constant output": net(lambda net, x: (x @ net.w, x * 2), {"w": lambda: torch.randn(C, C)}),
    "output is a parameter": net(lambda net, x: (x @ net.w, net.w), {"w": lambda: torch.randn(C, C)}),
    "buffer moves, script": Net(lambda: Moving(), rows(C), "script"),
}


def _symmetric():
    layer = linear()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


class Moving(nn.Module):
    """A buffer that the forward pass moves when it trains."""

    def __init__(self):
        super().__init__()
        self.inner = linear()
        self.register_buffer("center", torch.zeros(C))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x):
        y = self.inner(x)
        if self.training:
            with torch.no_grad():
                self.center.mul_(0.9).add_(0.1 * y.mean(0))
                self.steps += 1
        return y - self.center
