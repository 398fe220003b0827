"""K heads over one frozen trunk: one copy of the trunk, computed once, and each member trains as if alone."""
import json

import pytest
import torch
from torch import nn

from chorus_testing import assert_close, export, save_npz, state, tool, train_eagerly

N = C = K = 3
STEPS = 3


class Net(nn.Module):
    def __init__(self, dropout=0.0, frozen=True):
        super().__init__()
        torch.manual_seed(7)
        self.trunk = nn.Sequential(nn.Conv2d(C, C, 3, padding=1), nn.BatchNorm2d(C), nn.ReLU(), nn.Conv2d(C, C, 3), nn.BatchNorm2d(C))
        self.trunk.requires_grad_(not frozen)
        self.drop = nn.Dropout(dropout)
        self.head = nn.Linear(C, C)

    def forward(self, x):
        return self.head(self.drop(self.trunk(x)).mean((2, 3)))


def make(k, **kinds):
    net = Net(**kinds)
    torch.manual_seed(100 + k)
    nn.init.normal_(net.head.weight)
    return net


def batches(n=STEPS):
    g = torch.Generator().manual_seed(3)
    return [(torch.randn(N, C, 6, 6, generator=g), torch.randint(0, C, (N,), generator=g)) for _ in range(n)]


def fuse(folder, *more, **kinds):
    for k in range(K):
        export(make(k, **kinds), folder / f"m{k}.pt", batches()[0][0])
    return tool("fuse", *[folder / f"m{k}.pt" for k in range(K)], "-o", folder / "f.pt", "--loss", "cross_entropy", "--optimizer",
                "sgd", "--lr", 0.1, "--report", folder / "r.json", *more)


def trained(folder, *more):
    xs, ys = zip(*batches())
    data = save_npz(folder / "d.npz", torch.cat(xs), torch.cat(ys))
    tool("run", folder / "f.pt", "--data", data, "--epochs", 1, "--batch-size", N, "--shuffle", "none", "-o", folder / "t.pt", *more)
    tool("split", folder / "t.pt", "-o", folder / "out")
    return [torch.jit.load(str(folder / "out" / f"m{k}.pt")) for k in range(K)]


def kinds_of(folder):
    rows = json.loads((folder / "r.json").read_text())["nodes"]
    return {op: sorted({r["kind"] for r in rows if r["op"] == op}) for op in {r["op"] for r in rows}}


def test_a_frozen_trunk_is_one_copy_and_computed_once(tmp_path):
    fuse(tmp_path)
    fused = torch.jit.load(str(tmp_path / "f.pt"))
    assert {"trunk.0.weight", "trunk.3.weight", "trunk.1.weight"} <= set(fused.shared_names)
    sizes = {n: t.shape for n, t in fused.state_dict().items()}
    assert sizes["trunk.0.weight"] == (C, C, 3, 3) and sizes["head.weight"] == (K, C, C)
    assert sizes["trunk.1.running_mean"] == (K, C), "running statistics move: each member has its own"
    assert kinds_of(tmp_path)["aten::convolution"] == ["shared"]
    for k, split in enumerate(trained(tmp_path)):
        alone = make(k)
        before = state(alone)
        train_eagerly(alone, batches(), nn.CrossEntropyLoss(), lambda p: torch.optim.SGD([q for q in p if q.requires_grad], lr=0.1))
        assert_close(state(split), state(alone), 1e-5, moved_from=before, what=f"member {k}")
        x = batches(1)[0][0]
        torch.testing.assert_close(split.eval()(x), alone.eval()(x), rtol=1e-4, atol=1e-5)


def test_stacked_inputs_give_each_member_its_own(tmp_path):
    fuse(tmp_path)
    fused = torch.jit.load(str(tmp_path / "f.pt"))
    x = torch.stack([b[0] for b in batches(K)])
    got = fused(x)
    for k in range(K):
        alone = make(k)
        torch.testing.assert_close(got[k], alone(x[k]), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(dict(fused.named_buffers())["trunk.1.running_mean"][k],
                                   alone.trunk[1].running_mean, rtol=1e-4, atol=1e-5)


def test_dropout_in_the_trunk_is_drawn_by_each_member(tmp_path):
    fuse(tmp_path, dropout=0.5)
    assert kinds_of(tmp_path)["aten::convolution"] == ["shared"] and kinds_of(tmp_path)["aten::dropout"] == ["fused"]
    xs, ys = zip(*batches())
    splits = trained(tmp_path)
    for k in range(K):
        tool("run", tmp_path / f"m{k}.pt", "--data", tmp_path / "d.npz", "--epochs", 1, "--batch-size", N, "--shuffle", "none", "--loss",
             "cross_entropy", "--optimizer", "sgd", "--lr", 0.1, "-o", tmp_path / "alone.pt")
        assert_close(state(splits[k]), state(torch.jit.load(str(tmp_path / "alone.pt"))), 1e-5, what=f"member {k}")


def test_trained_trunks_are_not_shared(tmp_path):
    fuse(tmp_path, frozen=False)
    assert not [n for n in torch.jit.load(str(tmp_path / "f.pt")).shared_names if not n.startswith("chorus.")]


def test_what_is_named_is_shared_and_not_trained(tmp_path):
    fuse(tmp_path, "--share", "trunk.*", frozen=False)
    fused = torch.jit.load(str(tmp_path / "f.pt"))
    assert "trunk.0.weight" in fused.shared_names and "trunk.1.running_mean" not in fused.shared_names
    for split in trained(tmp_path):
        assert torch.equal(state(split)["trunk.0.weight"], make(0).trunk[0].weight)


@pytest.mark.parametrize("pattern, message", [("head.weight", "'head.weight' of member 1 differs from member 0's"),
                                              ("trunc.*", "no tensor is called 'trunc.*'")])
def test_what_cannot_be_shared_is_refused(tmp_path, pattern, message):
    for k in range(K):
        export(make(k), tmp_path / f"m{k}.pt", batches()[0][0])
    done = tool("fuse", *[tmp_path / f"m{k}.pt" for k in range(K)], "-o", tmp_path / "f.pt", "--share", pattern, ok=False)
    assert done.returncode == 1 and message in done.stderr, done.stderr
