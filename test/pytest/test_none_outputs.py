"""Tuples with None in them: in both modes, or where the other mode has a tensor (auxiliary outputs)."""
import json
from typing import List, Optional, Tuple

import numpy as np
import pytest
import torch
from chorus_testing import assert_close, export, seeded, state, tool, train_eagerly
from torch import Tensor, nn
from torch.nn import functional as F

K, N = 2, 2


class Auxiliary(nn.Module):
    """Logits, those of an auxiliary head in train mode, features in eval mode, and nothing."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
        h = torch.tanh(self.a(x))
        aux: Optional[Tensor] = None
        features: Optional[Tensor] = None
        if self.training:
            aux = self.b(h)
        else:
            features = h
        return self.c(h), aux, features, None


class Growing(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> List[Tensor]:
        return [self.a(x)] if self.training else [self.a(x), x]


LOSS = ["--loss", "cross_entropy@0 + 0.4*cross_entropy@1", "--optimizer", "sgd", "--lr", "0.1"]


def loss(outputs, y):
    return F.cross_entropy(outputs[0], y) + 0.4 * F.cross_entropy(outputs[1], y)


@pytest.fixture
def fused(tmp_path):
    members = [export(seeded(Auxiliary, k, torch.float64), tmp_path / f"m{k}.pt", None, "script") for k in range(K)]
    done = tool("fuse", *members, "-o", tmp_path / "fused.pt", "--input", "f64[N,3]", *LOSS)
    assert "unchecked" not in done.stdout + done.stderr
    return tmp_path / "fused.pt"


def data(folder, rows=6):
    rng = np.random.default_rng(0)
    np.savez(folder / "d.npz", x=rng.normal(size=(rows, 3)), y=rng.integers(0, 2, size=rows))
    return folder / "d.npz", torch.from_numpy(np.load(folder / "d.npz")["x"]), torch.from_numpy(np.load(folder / "d.npz")["y"])


def same(got, want):
    assert [t is None for t in got] == [t is None for t in want]
    for a, b in zip(got, want):
        if b is not None:
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("training", [True, False])
def test_each_mode_has_the_outputs_of_the_members(fused, training):
    x = torch.randn(N, 3, dtype=torch.float64)
    module = torch.jit.load(fused).train(training)
    tool("split", fused, "-o", fused.parent / "split")
    for inputs in (x, torch.stack([x, x])):
        outputs = module(inputs)
        for k in range(K):
            want = seeded(Auxiliary, k, torch.float64).train(training)(x)
            same([None if t is None else t[k] for t in outputs], want)
            same(torch.jit.load(fused.parent / "split" / f"m{k}.pt").train(training)(x), want)


def test_training_sees_auxiliary_outputs_and_scoring_does_not(fused):
    path, x, y = data(fused.parent)
    tool("run", fused, "--data", path, "--batch-size", N, "--shuffle", "none", "-o", fused.parent / "t.pt", "--quiet")
    scores = json.loads(tool("run", fused.parent / "t.pt", "--data", path, "--evaluate", "--json").stdout)
    trained = torch.jit.load(fused.parent / "t.pt")
    for k in range(K):
        alone = seeded(Auxiliary, k, torch.float64)
        before = state(alone)
        train_eagerly(alone, list(zip(x.split(N), y.split(N))), loss, lambda p: torch.optim.SGD(p, lr=0.1))
        mine = {n: t[k] for n, t in state(trained).items() if not n.startswith("chorus.")}
        assert_close(mine, state(alone), 1e-10, moved_from=before)
        want = F.cross_entropy(alone.eval()(x)[0], y).item()
        assert scores["members"][k]["loss"] == pytest.approx(want, rel=1e-9)


def test_weighted_rows(fused):
    path, x, y = data(fused.parent)
    np.savez(path, **np.load(path), w=np.full(6, 2.5))
    for name, options in (("plain", []), ("weighted", ["--sample-weight", "w"])):
        tool("run", fused, "--data", path, "--batch-size", N, "--seed", 1, "-o", fused.parent / f"{name}.pt", "--quiet", *options)
    plain, weighted = (state(torch.jit.load(fused.parent / f"{name}.pt")) for name in ("plain", "weighted"))
    assert_close(weighted, plain, 1e-10)


def test_predictions_leave_out_what_eval_mode_does_not_return(fused):
    path, x, _ = data(fused.parent)
    tool("run", fused, "--data", path, "--predict", fused.parent / "p.npz", "--keys", "x", "--batch-size", 4)
    got = np.load(fused.parent / "p.npz")
    assert sorted(got.files) == ["output0", "output2"]
    for k in range(K):
        want = seeded(Auxiliary, k, torch.float64).eval()(x)
        np.testing.assert_allclose(got["output0"][k], want[0].detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(got["output2"][k], want[2].detach().numpy(), rtol=1e-12)


def test_other_differences_between_the_modes_are_refused(tmp_path):
    members = [export(seeded(Growing, k), tmp_path / f"m{k}.pt", None, "script") for k in range(K)]
    done = tool("fuse", *members, "-o", tmp_path / "f.pt", "--input", "f32[N,3]", ok=False)
    assert done.returncode == 3 and "returns other things in eval mode" in done.stderr
