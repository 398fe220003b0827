# ctest: quick
"""Members that differ are refused by name, whatever differs; nothing is written and nothing is lost."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import export, tool


class Net(nn.Module):
    """One network with a switch for each difference."""

    def __init__(self, act=F.relu, stride=1, padding=1, skip=True, dim=1, eps=1e-5, bias=True, tied=False, p=0.1, scale=None):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, stride=stride, padding=padding, bias=bias)
        self.norm = nn.BatchNorm2d(4, eps=eps)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        if tied:
            self.b.weight = self.a.weight
        self.act, self.skip, self.dim, self.p = act, skip, dim, p
        self.scale = torch.arange(4.0) if scale is None else scale

    def forward(self, x):
        h = self.act(self.norm(self.conv(x))).mean((2, 3))
        h = h + self.a(h) if self.skip else self.a(h)
        h = F.dropout(h * self.scale, self.p, self.training)
        return torch.softmax(self.b(h), self.dim)


DIFFERENCES = {
    "activation": ({"act": F.elu}, "relu"),
    "stride": ({"stride": 2}, "stride"),
    "padding": ({"padding": 0}, "padding"),
    "wiring": ({"skip": False}, "add|linear|mul"),
    "softmax_dim": ({"dim": 0}, "dim"),
    "missing_bias": ({"bias": False}, "bias"),
    "shape_of_constant": ({"scale": torch.tensor([2.0])}, "constant"),
}


def members(folder, changed, odd):
    x = torch.randn(4, 4, 6, 6)
    paths = []
    for k in range(3):
        torch.manual_seed(k)
        paths.append(export(Net(**(changed if k == odd else {})), folder / f"m{k}.pt", x))
    return paths


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("odd", [0, 2])
def test_a_member_that_differs_is_refused_by_name(tmp_path, name, odd):
    import re

    changed, word = DIFFERENCES[name]
    done = tool("fuse", *members(tmp_path, changed, odd), "-o", tmp_path / "fused.pt", ok=False)
    assert done.returncode == 1, done.stderr
    assert f"m{odd}.pt" in done.stderr and f"member {odd} differs from the other 2" in done.stderr
    assert re.search(word, done.stderr), done.stderr
    assert not (tmp_path / "fused.pt").exists()


def test_equal_members_are_accepted(tmp_path):
    tool("fuse", *members(tmp_path, {}, 0), "-o", tmp_path / "fused.pt")
    assert (tmp_path / "fused.pt").exists()


@pytest.mark.parametrize("changed", [{"eps": 1e-3}, {"p": 0.5}, {"scale": torch.tensor([0.0, 1.0, 2.0, 4.0])}])
def test_members_that_differ_in_a_number_or_a_table_are_accepted(tmp_path, changed):
    tool("fuse", *members(tmp_path, changed, 1), "-o", tmp_path / "fused.pt")


def test_a_tied_weight_against_an_untied_one(tmp_path):
    for k, tied in enumerate([False, False, True]):
        torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)) if not tied else tie()).save(str(tmp_path / f"m{k}.pt"))
    done = tool("fuse", *[tmp_path / f"m{k}.pt" for k in range(3)], "-o", tmp_path / "f.pt", "--input", "f32[N,4]", ok=False)
    assert done.returncode == 1 and "m2.pt" in done.stderr, done.stderr


def tie():
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    net[2].weight = net[0].weight
    return net


def test_a_report_never_replaces_a_member_or_the_output(tmp_path):
    paths = members(tmp_path, {}, 0)
    before = paths[0].read_bytes()
    assert tool("fuse", *paths, "-o", tmp_path / "f.pt", "--report", paths[0], ok=False).returncode == 2
    assert paths[0].read_bytes() == before
    assert tool("fuse", *paths, "-o", tmp_path / "f.pt", "--report", tmp_path / "f.pt", ok=False).returncode == 2


def test_a_branch_on_the_batch_size_goes_both_ways(tmp_path):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.inner(x)
            if x.size(0) > 3:
                x = x * 2
            return x

    for k in range(2):
        torch.manual_seed(k)
        torch.jit.script(Branch()).save(str(tmp_path / f"m{k}.pt"))
    tool("fuse", tmp_path / "m0.pt", tmp_path / "m1.pt", "-o", tmp_path / "f.pt", "--input", "f32[N,4]")
    fused = torch.jit.load(str(tmp_path / "f.pt"))
    for n in (2, 5):
        x = torch.randn(n, 4)
        for k in range(2):
            assert torch.allclose(fused(x)[k], torch.jit.load(str(tmp_path / f"m{k}.pt"))(x))


def test_a_trace_that_assigns_to_slices_needs_no_input_option(tmp_path):
    class Slices(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            h = self.a(x)
            h[:, 0] = 0
            h[:, 1:3] += self.b(x)[:, :2]
            return h

    paths = []
    for k in range(2):
        torch.manual_seed(k)
        paths.append(export(Slices(), tmp_path / f"m{k}.pt", torch.randn(4, 4)))
    tool("fuse", *paths, "-o", tmp_path / "f.pt")
    x = torch.randn(4, 4)
    fused = torch.jit.load(str(tmp_path / "f.pt"))
    for k in range(2):
        assert torch.allclose(fused(x)[k], torch.jit.load(str(paths[k]))(x), atol=1e-6)
