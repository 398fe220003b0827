"""Networks that differ subtly: what is refused, what is carried with each member's own value, what is the same.

A case is the middle of a forward method, for each kind of member: a = first(x), b = tanh(second(x)), and it sets y, which goes
through one more linear layer. Behind `||`: what __init__ adds. Whatever is accepted trains like each member alone in PyTorch,
and gives in both modes and for other batch sizes what the member's own file gives.
"""
import importlib.util
import sys

import pytest
import torch
from torch import nn

from chorus_testing import assert_close, export, save_npz, state, tool, train_eagerly

N = C = K = 3
STEPS, LR = 4, 0.1
HEAD = """
from typing import Optional
import torch
import torch.nn.functional as F
from torch import nn
"""
NET = """

class Net{i}(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        {init}

    def forward(self, x):
        a, b = self.first(x), torch.tanh(self.second(x))
{body}
        return self.head(y)
"""
OUTER = "p = a.unsqueeze(2) * b.unsqueeze(1); q = torch.sin(p + 0.5)\n"
IMAGE = "i = x.view(-1, 1, 1, 3).expand(-1, 3, 3, 3) * torch.arange(1.0, 4.0).view(1, 3, 1, 1) + torch.arange(3.0).view(3, 1)\n"
ROWS = "i = (x * 2).long().clamp(0, 2)\n"
TWO = " || self.p, self.q = nn.Linear(3, 3), nn.Linear(3, 3)"
FOUR = TWO + "; self.r, self.s = nn.Linear(3, 3), nn.Linear(3, 3)"
W = " || self.w = nn.Parameter(torch.rand(3, 3))"
COUNT = " || self.register_buffer('n', torch.zeros(3)); self.register_buffer('m', torch.ones(3))"


def branches(train, evaluate):
    return f"if self.training:\n    y = {train}\nelse:\n    y = {evaluate}"


# name: (the others, the odd one). Scripts where the name starts with "script".
REFUSED = {
    "sub": ("y = a - b", "y = b - a"),
    "div": ("y = a / (b + 2)", "y = (b + 2) / (a.abs() + 1)"),
    "pow": ("y = torch.pow(b + 2, a)", "y = torch.pow(a.abs() + 1, b + 2)"),
    "bmm": (OUTER + "y = torch.bmm(p, q).sum(2)", OUTER + "y = torch.bmm(q, p).sum(2)"),
    "where": ("y = torch.where(a > 0, a, b)", "y = torch.where(a > 0, b, a)"),
    "cat": ("y = torch.cat([a, b], 1)[:, 1:4]", "y = torch.cat([b, a], 1)[:, 1:4]"),
    "lerp": ("y = torch.lerp(a, b, 0.3)", "y = torch.lerp(b, a, 0.3)"),
    "add with alpha": ("y = torch.add(a, b, alpha=2)", "y = torch.add(b, a, alpha=2)"),
    "order and alpha": ("y = torch.add(a, b, alpha=1)", "y = torch.add(b, a, alpha=2)"),
    "comparison": ("y = torch.where(a > b, a, 2 * b)", "y = torch.where(b > a, a, 2 * b)"),
    "and, or": ("y = a * ((a > 0) & (b > 0))", "y = a * ((a > 0) | (b > 0))"),
    "broadcast": (OUTER + "y = p[:, 0] + (a.unsqueeze(2) - b.unsqueeze(1))[:, 0]", OUTER + "y = p[:, 0] + (a.unsqueeze(1) - b.unsqueeze(2))[:, 0]"),
    "weight transposed": ("y = a @ self.w" + W, "y = a @ self.w.t()" + W),
    "einsum": ("y = torch.einsum('ni,ij->nj', a, self.w)" + W, "y = torch.einsum('ni,ji->nj', a, self.w)" + W),
    "chunks": ("u, v = torch.cat([a, b], 1).chunk(2, 1); y = u * torch.sigmoid(v)", "u, v = torch.cat([a, b], 1).chunk(2, 1); y = v * torch.sigmoid(u)"),
    "values, indices": ("v = torch.max(a, 1); y = b * v[0].unsqueeze(1)", "v = torch.max(a, 1); y = b * v[1].unsqueeze(1)"),
    "one bound": ("y = a.clamp(min=0.1)", "y = a.clamp(min=0.1, max=0.3)"),
    "rounding": ("y = b * torch.div(a, 0.3, rounding_mode='floor')", "y = b * torch.div(a, 0.3, rounding_mode='trunc')"),
    "table dtype": ("y = (a * torch.tensor([0.1, 2.0, 3.0])).float()", "y = (a * torch.tensor([0.1, 2.0, 3.0], dtype=torch.float64)).float()"),
    "mask or index": ("y = a[:, torch.tensor([True, False, True])].sum(1, keepdim=True) * b",
                      "y = a[:, torch.tensor([1, 0, 1])].sum(1, keepdim=True) * b"),
    "script int or float": ("y = a * ((a > 0).long() * 2).float()", "y = a * ((a > 0).long() * 2.0).float()"),
    "copy or view written": ("c = a.clone(); c[:, 0] = b[:, 0]; y = a + c", "c = a; c[:, 0] = b[:, 0]; y = a + c"),
    "contiguous is no copy": ("c = a.clone(); c.mul_(2); y = a + c", "c = a.contiguous(); c.mul_(2); y = a + c"),
    "reshape is no copy": ("c = a.reshape(-1).clone(); c.mul_(2); y = a + c.view(-1, 3)", "c = a.reshape(-1); c.mul_(2); y = a + c.view(-1, 3)"),
    "order of writes": ("a[:, 0] = a[:, 1]; a[:, 1] = a[:, 0]; y = a * b", "a[:, 1] = a[:, 0]; a[:, 0] = a[:, 1]; y = a * b"),
    "read before the write": ("c = torch.sin(a); a = a.mul_(2); y = a + c", "a = a.mul_(2); c = torch.sin(a); y = a + c"),
    "softmax dim": ("y = a.softmax(1)", "y = a.softmax(0)"),
    "batch mean": ("y = b * a.mean(1, keepdim=True)", "y = b * a.mean(0, keepdim=True)"),
    "first rows": ("y = a + a[:3].mean(0)", "y = a + a.mean(0)"),
    "last rows": ("y = a + a[-2:].mean(0)", "y = a + a[1:].mean(0)"),
    "script batch size": ("y = a / x.size(0)", "y = a / 3"),
    "script branch on the batch size": ("if x.size(0) > 2:\n    y = a\nelse:\n    y = b", "if x.size(0) > 3:\n    y = a\nelse:\n    y = b"),
    "script loop over rows": ("y = a\nfor i in range(x.size(0)):\n    y = y + a[i] * b", "y = a\nfor i in range(2):\n    y = y + a[i] * b"),
    "script modes exchanged": (branches("a * b", "a - b"), branches("a - b", "a * b")),
    "script eval only": (branches("a", "torch.tanh(a)"), branches("a", "torch.sin(a)")),
    "script layers exchanged in eval": ("y = torch.relu(self.p(a)) + torch.tanh(self.q(a))" + TWO, branches(
        "torch.relu(self.p(a)) + torch.tanh(self.q(a))", "torch.relu(self.q(a)) + torch.tanh(self.p(a))") + TWO),
    "script symmetric in training": (
        branches("torch.relu(self.p(a)) + torch.relu(self.q(a))", "torch.relu(self.p(a)) + torch.relu(self.p(a)) * 2") + TWO,
        branches("torch.relu(self.p(a)) + torch.relu(self.q(a))", "torch.relu(self.q(a)) + torch.relu(self.p(a)) * 2") + TWO),
    "script pairs crossed in eval": (
        branches("torch.relu(self.p(self.q(a))) + torch.relu(self.r(self.s(a)))", "torch.relu(self.p(self.q(a))) + torch.relu(self.r(self.s(a)))") + FOUR,
        branches("torch.relu(self.p(self.q(a))) + torch.relu(self.r(self.s(a)))", "torch.relu(self.p(self.s(a))) + torch.relu(self.r(self.q(a)))") + FOUR),
    "cycles of layers": (
        "y = 0\nfor u, v in [(self.p, self.q), (self.q, self.p), (self.r, self.s), (self.s, self.r)]:\n    y = y + torch.relu(u(a)) * v(a).tanh()" + FOUR,
        "y = 0\nfor u, v in [(self.p, self.q), (self.q, self.r), (self.r, self.s), (self.s, self.p)]:\n    y = y + torch.relu(u(a)) * v(a).tanh()" + FOUR),
    "script data branch": ("if bool(x.sum() > 0):\n    y = a\nelse:\n    y = b * 2", "if bool(x.sum() > 0):\n    y = b * 2\nelse:\n    y = a"),
    "trips": ("y = a\nfor i in range(2):\n    y = torch.tanh(y + b)", "y = a\nfor i in range(3):\n    y = torch.tanh(y + b)"),
    "tied": ("y = self.q(torch.tanh(self.p(a)))" + TWO, "y = self.q(torch.tanh(self.p(a)))" + TWO + "; self.q.weight = self.p.weight"),
    "tied elsewhere": ("y = self.q(torch.tanh(self.p(a)))" + TWO + "; self.q.weight = self.first.weight",
                       "y = self.q(torch.tanh(self.p(a)))" + TWO + "; self.q.weight = self.second.weight"),
    "called twice": ("y = self.p(torch.tanh(self.p(a)))" + TWO, "y = self.q(torch.tanh(self.p(a)))" + TWO + "; self.q.load_state_dict(self.p.state_dict())"),
    "bias": ("y = self.p(a) || self.p = nn.Linear(3, 3)", "y = self.p(a) || self.p = nn.Linear(3, 3, bias=False)"),
    "buffer": ("y = a @ self.w || self.w = nn.Parameter(torch.rand(3, 3), requires_grad=False)", "y = a @ self.w || self.register_buffer('w', torch.rand(3, 3))"),
    "frozen": ("y = a @ self.w" + W, "y = a @ self.w" + W + "; self.w.requires_grad = False"),
    "unused parameter": ("y = a", "y = a" + W),
    "updated buffer": ("y = a + self.n" + COUNT, "self.n.add_(1)\ny = a + self.n" + COUNT),
    "update before reading": ("self.n.add_(1)\ny = a + self.n" + COUNT, "y = a + self.n\nself.n.add_(1)" + COUNT),
    "other buffer updated": ("self.n.add_(1)\ny = a + self.n - self.m" + COUNT, "self.m.add_(1)\ny = a + self.n - self.m" + COUNT),
    "script update in training": ("self.n.add_(1)\ny = a + self.n" + COUNT, "if self.training:\n    self.n.add_(1)\ny = a + self.n" + COUNT),
    "detach": ("c = torch.sin(a); y = a + c.detach()", "c = torch.sin(a); y = a.detach() + c"),
    "script no_grad": ("c = torch.sin(b)\ny = a * c", "with torch.no_grad():\n    c = torch.sin(b)\ny = a * c"),
    "maximum": ("y = b * a.max(1, keepdim=True)[0]", "y = b * a.amax(1, keepdim=True)"),
    "written in place": ("y = F.relu(a) + a", "y = F.relu_(a) + a"),
    "one mask or two": ("y = self.d(a) + self.d(a) || self.d = nn.Dropout(0.5)", "t = self.d(a)\ny = t + t || self.d = nn.Dropout(0.5)"),
    "script dropout in eval": ("y = F.dropout(a, 0.5, self.training)", "y = F.dropout(a, 0.5, True)"),
    "statistics": ("y = self.d(a) || self.d = nn.BatchNorm1d(3)", "y = self.d(a) || self.d = nn.BatchNorm1d(3, track_running_stats=False)"),
    "normalised dims": (OUTER + "y = F.layer_norm(p, [3])[:, 0]", OUTER + "y = F.layer_norm(p, [3, 3])[:, 0]"),
    "gelu": ("y = F.gelu(a)", "y = F.gelu(a, approximate='tanh')"),
    "half precision": ("y = a * b", "y = a.half().float() * b"),
    "heads": ("y = self.m(p, q, p)[0][:, 0] || self.m = nn.MultiheadAttention(3, 1)", "y = self.m(p, q, p)[0][:, 0] || self.m = nn.MultiheadAttention(3, 3)"),
    "batch first": ("y = self.r(p)[0][:, 0] || self.r = nn.LSTM(3, 3, batch_first=True)", "y = self.r(p)[0][:, 0] || self.r = nn.LSTM(3, 3)"),
    "padding mode": (IMAGE + "y = self.c(i).relu().mean((2, 3)) || self.c = nn.Conv2d(3, 3, 3, padding=1, padding_mode='circular')",
                     IMAGE + "y = self.c(i).relu().mean((2, 3)) || self.c = nn.Conv2d(3, 3, 3, padding=1, padding_mode='replicate')"),
    "transposed": (IMAGE + "y = self.c(i).relu().mean((2, 3)) || self.c = nn.Conv2d(3, 3, 3, padding=1)",
                   IMAGE + "y = self.c(i).relu().mean((2, 3)) || self.c = nn.ConvTranspose2d(3, 3, 3, padding=1)"),
    "corners": (IMAGE + "y = F.interpolate(i, scale_factor=2.0, mode='bilinear', align_corners=True)[:, :, 1, :3]",
                IMAGE + "y = F.interpolate(i, scale_factor=2.0, mode='bilinear', align_corners=False)[:, :, 1, :3]"),
    "padding_idx": (ROWS + "y = self.e(i).sum(1) + a || self.e = nn.Embedding(3, 3)", ROWS + "y = self.e(i).sum(1) + a || self.e = nn.Embedding(3, 3, padding_idx=0)"),
    "dict values": ("d = {'u': a, 'v': b}\nl = list(d.values())\ny = l[0] - l[1]", "d = {'v': b, 'u': a}\nl = list(d.values())\ny = l[0] - l[1]"),
}
for name in ("heads", "batch first"):
    REFUSED[name] = tuple(OUTER + text for text in REFUSED[name])

# name: one text per member
CARRIED = {
    "int and float": ("y = a * 2", "y = a * 2.0", "y = a * 3.5"),
    "float alpha": ("y = torch.add(a, b, alpha=1)", "y = torch.add(a, b, alpha=1.0)", "y = torch.add(a, b, alpha=-1)"),
    "equal in fp32": ("y = a * 0.1", "y = a * 0.10000000149011612", "y = a * 0.30000000000000004"),
    "minus zero": ("y = a + torch.copysign(b, torch.full_like(a, 2))", "y = a + torch.copysign(b, torch.full_like(a, -0.0))",
                   "y = a + torch.copysign(b, torch.full_like(a, 0.0))"),
    "minus zero in a table": ("y = a + torch.copysign(b, torch.tensor([0.0, 1.0, 2.0]))", "y = a + torch.copysign(b, torch.tensor([-0.0, 1.0, 2.0]))",
                              "y = a + torch.copysign(b, torch.tensor([0.0, 1.0, -0.0]))"),
    "nan": ("y = b + torch.nan_to_num(a.masked_fill(a > 0, float('nan')), 0.5, 0.2)", "y = b + torch.nan_to_num(a.masked_fill(a > 0, float('inf')), 0.5, 0.2)",
            "y = b + torch.nan_to_num(a.masked_fill(a > 0, 0.1), 0.5, 0.2)"),
    "bounds that cross": ("y = a.clamp(0, 1)", "y = a.clamp(-0.2, 0.5)", "y = a.clamp(0.2, 0.1)"),
    "script bool plus number": ("y = a * ((a > 0) + 2)", "y = a * ((a > 0) + 3)", "y = a * ((a > 0) + 0)"),
    "script bool times number": ("y = a * ((a > 0) * 2)", "y = a * ((a > 0) * 3)", "y = a * ((a > 0) * -1)"),
    "bool beside number": ("y = a * ((a > 0) == 1)", "y = a * ((a > 0) == 2)", "y = a * ((a > 0) == 0)"),
    "half beside number": ("y = a * (torch.full_like(a, 0.1).bfloat16() >= 0.1001) + b", "y = a * (torch.full_like(a, 0.1).bfloat16() >= 0.3) + b"),
    "numbers exchanged": ("y = torch.tanh(a * 2) + torch.tanh(a * 3)", "y = torch.tanh(a * 3) + torch.tanh(a * 2)", "y = torch.tanh(a * 5) + torch.tanh(a * 3)"),
    "script numbers by mode": (branches("a * 2", "a * 3"), branches("a * 3", "a * 2"), branches("a * 2", "a * 5")),
    "script layers by mode": (branches("torch.tanh(self.p(a) * 2) + torch.tanh(self.q(a) * 3)", "self.p(a)") + TWO,
                              branches("torch.tanh(self.p(a) * 3) + torch.tanh(self.q(a) * 2)", "self.q(a)") + TWO),
    "script attributes": ("y = a * self.d['u'] + b * self.l[1] || self.d = {'u': 2.0, 'v': 3.0}; self.l = [1.0, 2.0]",
                          "y = a * self.d['u'] + b * self.l[1] || self.d = {'v': 2.0, 'u': 3.0}; self.l = [2.0, 1.0]"),
    "update rate": ("self.n.mul_(0.9).add_(a.detach().mean(0), alpha=0.1)\ny = a + self.n" + COUNT,
                    "self.n.mul_(0.8).add_(a.detach().mean(0), alpha=0.2)\ny = a + self.n" + COUNT),
    "at the bounds": ("y = (torch.sign(a.detach()) * 0.5 + a - a.detach()).clamp(-0.5, 0.5)", "y = (torch.sign(a.detach()) * 0.5 + a - a.detach()).clamp(-0.5, 0.7)",
                      "y = (torch.sign(a.detach()) * 0.5 + a - a.detach()).clamp(-0.2, 0.5)"),
    "padding value": (IMAGE + "y = F.pad(i, (1, 1), value=0.5).mean((2, 3)) + a", IMAGE + "y = F.pad(i, (1, 1), value=-2.0).mean((2, 3)) + a",
                      IMAGE + "y = F.pad(i, (1, 1), value=0.0).mean((2, 3)) + a"),
    "script number that is none": ("y = b + torch.nan_to_num(F.softshrink(torch.where(b > 0, a, float('nan')), 0.1), nan=0.7)",
                                   "y = b + torch.nan_to_num(F.softshrink(torch.where(b > 0, a, float('nan')), 0.3), nan=0.7)"),
    "beta of zero": ("y = torch.addmm(torch.log((a - a).detach()), b, self.w.detach(), beta=0) + b" + W, "y = torch.addmm(torch.log((a - a).detach()), b, self.w.detach(), beta=0, alpha=2) + b" + W),
    "number times a sum": ("y = b + a.sum() * 0.1", "y = b + a.sum() * 0.3", "y = b + a.sum() * -1.5"),
    "tables of two members": ("y = a * torch.tensor([0.1, 2.0, 3.0])", "y = a * torch.tensor([0.2, 2.0, 3.0])"),
    "half times number": ("y = (a.bfloat16() * 0.1).float()", "y = (a.bfloat16() * 0.3).float()", "y = (a.bfloat16() * 0.7).float()"),
    "norm order": ("y = a * torch.linalg.vector_norm(b, 2.0, 1, keepdim=True)", "y = a * torch.linalg.vector_norm(b, float('inf'), 1, keepdim=True)",
                   "y = a * torch.linalg.vector_norm(b, 1, 1, keepdim=True)"),
}

# name: one text per kind of member; as traces, as scripts, and the first as a trace among scripts
ACCEPTED = {
    "mul and add exchanged": ("y = a * b + b", "y = b + b * a"),
    "and exchanged": ("y = a * (((a > 0) & (b > 0)) | (a < b))", "y = a * ((a < b) | ((b > 0) & (a > 0)))"),
    "number in front": ("y = a * 2", "y = 2 * a"),
    "alpha of one": ("y = a + b", "y = torch.add(b, a, alpha=1)"),
    "in place": ("y = F.relu(a + b)", "a += b; y = F.relu_(a)"),
    "layers in another order": ("y = self.q(torch.tanh(self.p(a)))" + TWO, "y = self.p(torch.tanh(self.q(a)))" + TWO),
    "nested": ("y = self.q(torch.tanh(self.p(a)))" + TWO, "y = self.s(a) || self.s = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Sequential(nn.Identity(), nn.Linear(3, 3)))"),
    "flag": ("if self.flag:\n    y = a\nelse:\n    y = b || self.flag = True", "if self.other != 1:\n    y = b\nelse:\n    y = a || self.other = 1"),
    "unrolled": ("y = a\nfor i in range(2):\n    y = torch.tanh(y + b)", "y = torch.tanh(torch.tanh(a + b) + b)"),
    "dead code": ("y = a * b", "z = torch.sin(a) + self.head(b)\ny = a * b"),
    "dicts and lists": ("d = {'u': a, 'v': b}\ny = d['u'] - d['v']", "l = [b]\nl.insert(0, a)\ny = l[-2] - l[1]"),
    "slices": ("y = torch.cat([a, b], 1)[:, 1:4] + a[:, :3]", "c = a[:, :3]\ny = torch.cat([a, b], 1)[:, 1:4] + c"),
    "nan": ("y = b + torch.nan_to_num(a.masked_fill(a > 0, float('nan')), nan=0.5)",) * 2,
}
SCRIPTS = {
    "mode negated": (branches("a * b", "a - b"), "if not self.training:\n    y = a - b\nelse:\n    y = a * b"),
    "symmetric layers exchanged": ("y = torch.relu(self.p(a)) + torch.relu(self.q(a))" + TWO, branches(
        "torch.relu(self.p(a)) + torch.relu(self.q(a))", "torch.relu(self.q(a)) + torch.relu(self.p(a))") + TWO),
    "symmetric until eval": (branches("torch.relu(self.p(a)) + torch.relu(self.q(a))", "torch.relu(self.p(a))") + TWO,
                             branches("torch.relu(self.p(a)) + torch.relu(self.q(a))", "torch.relu(self.q(a))") + TWO),
    "assert": ("y = a * b", "assert x.size(1) == 3, 'width'\ny = a * b"),
    "optional": ("y = a", "z: Optional[torch.Tensor] = None\nif z is None:\n    y = a\nelse:\n    y = b"),
}


def networks(folder, texts):
    """One class per text, from a file: scripting reads the source."""
    source = HEAD
    for i, text in enumerate(texts):
        body, _, init = text.partition(" || ")
        lines = "\n".join("        " + line for line in body.split("\n"))
        source += NET.format(i=i, init=init or "pass", body=lines)
    path = folder / f"nets_{abs(hash(texts))}.py"
    path.write_text(source)
    loaded = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(loaded)
    sys.modules[path.stem] = module
    loaded.loader.exec_module(module)
    return [getattr(module, f"Net{i}") for i in range(len(texts))]


def batches():
    g = torch.Generator().manual_seed(3)
    return [(torch.randn(N, C, generator=g), torch.randint(0, C, (N,), generator=g)) for _ in range(STEPS)]


def make(net, k):
    torch.manual_seed(100 + k)
    return net()


def export_members(folder, nets, kinds):
    return [export(make(net, k), folder / f"m{k}.pt", batches()[0][0], kind) for k, (net, kind) in enumerate(zip(nets, kinds))]


def fuse(folder, files, ok=True, momentum=0.9):
    return tool("fuse", *files, "-o", folder / "f.pt", "--input", "f32[N,3]", "--loss", "cross_entropy", "--optimizer", "sgd", "--lr", LR,
                "--momentum", momentum, ok=ok)


def compare_with_members(folder, nets, kinds, momentum=0.9):
    files = export_members(folder, nets, kinds)
    fuse(folder, files, momentum=momentum)
    assert "the certificate holds" in tool("fuse", *files, "--check", folder / "f.pt", "--input", "f32[N,3]").stdout
    xs, ys = zip(*batches())
    data = save_npz(folder / "d.npz", torch.cat(xs), torch.cat(ys))
    tool("run", folder / "f.pt", "--data", data, "--epochs", 1, "--batch-size", N, "--shuffle", "none", "-o", folder / "t.pt")
    tool("split", folder / "t.pt", "-o", folder / "out")
    for k, net in enumerate(nets):
        alone, split = make(net, k), torch.jit.load(str(folder / "out" / f"m{k}.pt"))
        before = state(alone)
        train_eagerly(alone, batches(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD(p, lr=LR, momentum=momentum))
        assert_close(state(split), state(alone), 1e-5, moved_from=before, what=f"member {k}")
        for mode in (True, False):
            for rows in (3, 2, 5) if kinds[k] == "script" else (3,):
                x = torch.randn(rows, C, generator=torch.Generator().manual_seed(rows))
                for_this = torch.jit.load(str(folder / "out" / f"m{k}.pt")).train(mode)
                alone.load_state_dict(for_this.state_dict())
                torch.testing.assert_close(for_this(x), alone.train(mode)(x), rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", REFUSED)
def test_what_computes_another_function_is_refused(tmp_path, name):
    """Wherever the odd one stands, and it is the one that is named."""
    usual, odd = networks(tmp_path, REFUSED[name])
    for place in (0, 2):
        nets = [odd if k == place else usual for k in range(K)]
        files = export_members(tmp_path, nets, ["script" if name.startswith("script") else "trace"] * K)
        done = fuse(tmp_path, files, ok=False)
        assert done.returncode == 1 and f"m{place}.pt" in done.stderr.split("error:")[0], done.stderr + done.stdout
        assert "member" in done.stderr and " [C" in done.stderr, done.stderr


@pytest.mark.parametrize("name", CARRIED)
def test_numbers_are_carried_with_each_members_own(tmp_path, name):
    nets = networks(tmp_path, CARRIED[name])
    compare_with_members(tmp_path, nets, ["script" if name.startswith("script") else "trace"] * len(nets))


@pytest.mark.parametrize("kinds", [("trace",) * 3, ("script",) * 3, ("trace", "script", "script")], ids=["traces", "scripts", "mixed"])
@pytest.mark.parametrize("name", ACCEPTED)
def test_what_computes_the_same_function_is_accepted(tmp_path, name, kinds):
    first, other = networks(tmp_path, ACCEPTED[name])
    compare_with_members(tmp_path, [first, other, first], kinds)


BRANCH = [f"if bool(x.sum() > {bound}):\n    y = a\nelse:\n    y = b * 2" for bound in (0, 2, -1)]


def test_branches_by_each_members_own_number(tmp_path):
    """Layers in front of the branch: what it does not read has no gradient in PyTorch, which momentum would notice."""
    nets = networks(tmp_path, tuple(BRANCH))
    compare_with_members(tmp_path, nets, ["script"] * K, momentum=0)
    refused = fuse(tmp_path, export_members(tmp_path, nets, ["script"] * K), ok=False)
    assert refused.returncode == 3 and "'first.weight' is read only where a member's own data decide it" in refused.stderr, refused.stderr


def test_a_branch_that_all_layers_go_through_needs_no_plain_sgd(tmp_path):
    texts = [f"y = a * b\nif bool(x.sum() > {bound}):\n    y = y * 2\nelse:\n    y = torch.sin(y)" for bound in (0, 2, -1)]
    compare_with_members(tmp_path, networks(tmp_path, tuple(texts)), ["script"] * K)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_of_the_same_function_are_accepted(tmp_path, name):
    first, other = networks(tmp_path, SCRIPTS[name])
    compare_with_members(tmp_path, [first, other, first], ["script"] * 3)
