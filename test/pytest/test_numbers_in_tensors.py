# ctest: quick
"""Sizes that a network computes in tensors, and numbers that it draws."""
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, seeded, state, tool, train_eagerly

N = 4  # = K: a wrong axis cannot raise
LRS = [0.1, 0.05, 0.2, 0.02]


class Sized(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)


class Smallest(Sized):  # as the windows of HuggingFace's Swin
    def forward(self, x):
        h, w = x.shape[1], x.shape[2]
        m = torch.min(torch.tensor((h, w)))
        return self.lin(x).view(-1, h // int(m), int(m), 4).sum((1, 2))


class SmallestTraced(Sized):  # the window stays a tensor
    def forward(self, x):
        h, w = x.shape[1], x.shape[2]
        m = torch.min(torch.tensor((h, w)))
        return self.lin(x).view(-1, h // m, m, 4).sum((1, 2))


class Product(Sized):
    def forward(self, x):
        sizes = torch.tensor(x.shape)
        return self.lin(x).reshape(x.shape[0], sizes[1:].prod())[:, :4]


class OfTheBatch(Sized):  # a size that follows N
    def forward(self, x):
        rows = torch.tensor([x.size(0), x.size(1)]).prod()
        return self.lin(x).reshape(int(rows), -1).view(x.size(0), -1)[:, :4]


class Stacked(Sized):
    def forward(self, x):
        sizes = torch.stack([torch.tensor(x.size(1)), torch.tensor(x.size(2))])
        sizes[0] = 2
        return self.lin(x)[:, : int(sizes.min())].sum(1)


class Counted(Sized):
    def forward(self, x):
        steps = torch.arange(x.size(1))
        return self.lin(x)[:, : int(steps.max())].sum(1)


class Rewritten(Sized):  # what was known of a view before a branch wrote its base is not true behind it
    def forward(self, x):
        sizes = torch.zeros(2)
        first = sizes[0]
        if float(x.mean()) > -100.0:
            sizes += 3
        return self.lin(x).sum(1) * float(first)


TRACED = [Smallest, SmallestTraced, Product, Counted]
SCRIPTED = [Smallest, OfTheBatch, Stacked, Counted, Rewritten]


@pytest.mark.parametrize("network,script", [(c, False) for c in TRACED] + [(c, True) for c in SCRIPTED])
def test_sizes_in_tensors(tmp_path, network, script):
    for k in range(4):
        net = seeded(network, k)
        made = torch.jit.script(net) if script else torch.jit.trace(net, (torch.randn(N, 4, 4),))
        made.save(str(tmp_path / f"m{k}.pt"))
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5 * N, 4, 4)).astype(np.float32), rng.normal(size=(5 * N, 4)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    tool("fuse", *(f"m{k}.pt" for k in range(4)), "-o", "f.pt", "--input", "f32[N,4,4]", "--loss", "mse", "--optimizer", "adam",
         "--lr", ",".join(map(str, LRS)), cwd=tmp_path)
    tool("run", "f.pt", "--data", "d.npz", "--epochs", "2", "--batch-size", str(N), "--shuffle", "none", "--quiet", "-o", "t.pt", cwd=tmp_path)
    tool("split", "t.pt", "-o", "out", cwd=tmp_path)
    batches = [(torch.from_numpy(x[i:i + N]), torch.from_numpy(y[i:i + N])) for i in range(0, 5 * N, N)] * 2
    for k in range(4):
        net = seeded(network, k)
        train_eagerly(net, batches, nn.functional.mse_loss, lambda p, k=k: torch.optim.Adam(p, lr=LRS[k]))
        assert_close(state(torch.jit.load(tmp_path / "out" / f"m{k}.pt")), state(net), 1e-5)
    fused = torch.jit.load(tmp_path / "f.pt")
    other = torch.randn(N + 1, 4, 4)  # another batch size than the trace's
    for k in range(4):
        assert_close({"y": fused(other)[k]}, {"y": seeded(network, k)(other)}, 1e-6)


class Drawn(Sized):
    def forward(self, x):
        return self.lin(x).sum(1) * float(torch.rand(1))


class Depth(Sized):  # stochastic depth
    def forward(self, x):
        y = self.lin(x)
        if self.training and float(torch.rand([])) < 0.5:
            y = y * 2.0
        return y.sum(1)


class Gate(Sized):
    def forward(self, x):
        return self.lin(x).sum(1) * torch.bernoulli(torch.tensor(0.5)).item()


class Filled(Sized):
    def forward(self, x):
        scale = torch.zeros(2)
        scale.uniform_()
        return self.lin(x).sum(1) * float(scale[0])


@pytest.mark.parametrize("network", [Drawn, Depth, Gate, Filled])
def test_what_a_script_draws_is_drawn_at_every_step(tmp_path, network):
    for k in range(2):
        torch.jit.script(seeded(network, k)).save(str(tmp_path / f"m{k}.pt"))
    tool("fuse", "m0.pt", "m1.pt", "-o", "f.pt", "--input", "f32[N,4,4]", cwd=tmp_path)
    fused, x = torch.jit.load(tmp_path / "f.pt"), torch.randn(N, 4, 4)
    nets = [seeded(network, k) for k in range(2)]
    together = [[y.detach() for y in fused(x)] for _ in range(40)]
    for k in range(2):
        mine, alone = [y[k] for y in together], [nets[k](x).detach() for _ in range(40)]
        assert not all(torch.equal(y, mine[0]) for y in mine)
        if network in (Depth, Gate):  # of two values: the same two
            assert all(any(torch.allclose(y, z) for z in alone) for y in mine)
