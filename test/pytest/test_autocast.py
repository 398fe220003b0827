# ctest: quick
"""Autocast regions of scripted code: the fused network computes in the dtypes in which PyTorch does, forward and backward."""
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, export, save_npz, seeded, spec, tool

chorus = pytest.importorskip("chorus", reason="the Python module is not built here")

N = C = 4
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
ROUNDING = {"bf16": 2.0**-7, "fp16": 2.0**-9}


class Region(nn.Module):
    """One region, in which products are in half precision; its dtype is the CPU's own."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(C, C), nn.Linear(C, C)

    def forward(self, x):
        with torch.autocast("cpu"):
            y = torch.softmax(self.a(x), -1)
        return self.b(y.float())


class Half(Region):
    """Results leave the region in half precision."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.float16):
            y = self.b(torch.tanh(self.a(x)))
        return y


class Nested(Region):
    """A region switched off within one, one that never was on, a matrix product and a branch of the batch's size."""

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            y = self.a(x)
            with torch.autocast("cpu", enabled=False):
                z = self.b(x)
            y = torch.mm(y, z.t()).mm(z)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
            return self.b(y.float()) + z


class Images(nn.Module):
    """Convolutions, norms, and a loss-like sum within a submodule that has the region."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, C, 3, padding=1), nn.BatchNorm2d(C), Region()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.relu(self.norm(self.conv(x.view(-1, 1, 2, 2))))
        return self.head(y.float().mean([2, 3]))


CASES = {"region": (Region, "bf16"), "half": (Half, "fp16"), "nested": (Nested, "bf16"), "images": (Images, "bf16")}


@pytest.mark.parametrize("stacked", [True, False], ids=["stacked", "shared"])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("kind", ["script", "trace"])
@pytest.mark.parametrize("case", CASES)
def test_region_equals_eager(case, kind, k, stacked):
    build, dtype = CASES[case]
    models = [seeded(build, i) for i in range(k)]
    torch.manual_seed(9)
    xs = torch.randn(k, N, C) if stacked else torch.randn(N, C)
    given = [torch.jit.script(m) if kind == "script" else torch.jit.trace(m, torch.randn(N, C), check_trace=False) for m in models]
    states = [{n: t.clone() for n, t in m.state_dict().items()} for m in models]
    fused = chorus.fuse(given, input="f32[N,4]").train()
    for m, s in zip(models, states):
        m.load_state_dict(s)
    y = fused(xs)
    want = torch.stack([m(xs[i] if stacked else xs) for i, m in enumerate(models)])
    assert y.dtype == want.dtype
    weight = torch.randn_like(want)
    (y * weight).sum().backward()
    (want * weight).sum().backward()
    tolerance = 4 * ROUNDING[dtype]
    assert_close({"y": y.detach().float()}, {"y": want.detach().float()}, tolerance)
    stack = {n: torch.stack([dict(m.named_parameters())[n].grad for m in models]) for n, _ in models[0].named_parameters()}
    noise = {n for n in stack if case == "images" and n == "conv.bias"}  # a batch norm takes it out: all of it is rounding
    assert_close({n: p.grad for n, p in fused.named_parameters() if n not in noise}, {n: g for n, g in stack.items() if n not in noise}, tolerance)


def test_rounding_is_that_of_the_region():
    """In full precision the results were nearer to each other than to those of the region."""
    model = seeded(Region, 0)
    fused = chorus.fuse([torch.jit.script(model)], input="f32[N,4]").eval()
    x = torch.randn(N, C)
    full = model.b(torch.softmax(model.a(x), -1))
    assert (fused(x)[0] - model(x)).abs().max() < 0.1 * (full - model(x)).abs().max()


def test_members_train_as_their_own_code_does(tmp_path):
    """chorus-fuse verifies a step; chorus-run trains the fused file and, unfused, the members' own code."""
    paths = [export(seeded(Nested, i), tmp_path / f"m{i}.pt", torch.randn(N, C), "script") for i in range(3)]
    tool("fuse", *paths, "-o", tmp_path / "fused.pt", "--input", spec(torch.randn(N, C)), "--loss", "mse", "--optimizer", "sgd", "--lr", "0.01")
    torch.manual_seed(3)
    save_npz(tmp_path / "d.npz", torch.randn(8, C), torch.randn(8, C))
    common = ["--data", tmp_path / "d.npz", "--epochs", "2", "--batch-size", "4", "--quiet"]
    tool("run", tmp_path / "fused.pt", *common, "-o", tmp_path / "a.pt")
    tool("run", tmp_path / "fused.pt", *common, "--unfused", "-o", tmp_path / "b.pt")
    a, b = (torch.jit.load(str(tmp_path / f"{n}.pt")).state_dict() for n in "ab")
    names = [n for n in a if not n.startswith("chorus")]
    assert_close({n: a[n] for n in names}, {n: b[n] for n in names}, 4 * ROUNDING["bf16"])


class Chosen(Region):
    def forward(self, x):
        with torch.autocast("cpu", enabled=bool(x.sum() > 0)):
            return self.a(x)


def test_region_that_data_switch_is_refused():
    with pytest.raises(Exception, match="torch.autocast.*not a constant"):
        chorus.fuse([torch.jit.script(Chosen())], input="f32[N,4]")
