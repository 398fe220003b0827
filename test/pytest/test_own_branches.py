# ctest: quick
"""Branches that each member's own data decide: what a member does not read has no gradient in PyTorch."""
import numpy as np
import pytest
import torch
from torch import nn

from chorus_testing import assert_close, seeded, state, tool, train_eagerly

LRS = [0.1, 0.05, 0.2]


class Own(nn.Module):
    """Members whose gate is above 0 read `yes`, the others read `no`."""

    def __init__(self):
        super().__init__()
        self.yes, self.no, self.gate, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Parameter(torch.zeros(())), nn.Linear(4, 4)

    def forward(self, x):
        if bool(self.gate > 0):
            x = self.yes(x) * self.gate
        else:
            x = self.no(x)
        return self.last(x)


def make(k):
    net = seeded(Own, k)
    with torch.no_grad():
        net.gate.fill_(0.5 * k - 0.25)
    return net


@pytest.fixture
def members(tmp_path):
    for k in range(3):
        torch.jit.script(make(k)).save(str(tmp_path / f"m{k}.pt"))
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(4, 4)).astype(np.float32), y=rng.normal(size=(4, 4)).astype(np.float32))
    return tmp_path


def fuse(folder, *options, ok=True):
    return tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--input", "f32[N,4]", "--loss", "mse", *options, cwd=folder, ok=ok)


@pytest.mark.parametrize("optimizer", [["adam"], ["sgd", "--momentum", "0.9"], ["sgd", "--weight-decay", "0,0.1,0"]])
def test_optimizers_that_move_without_a_gradient_are_refused(members, optimizer):
    done = fuse(members, "--optimizer", *optimizer, "--lr", "0.1", ok=False)
    assert done.returncode == 3 and not (members / "f.pt").exists()
    for part in (f"is read only where a member's own data decide it, and {optimizer[0]} moves what has no gradient",
                 "if bool(self.gate > 0):", "help: sgd without momentum and weight decay trains it exactly"):
        assert part in done.stderr, done.stderr


def test_plain_sgd_leaves_alone_what_a_member_does_not_read(members):
    fuse(members, "--optimizer", "sgd", "--lr", ",".join(map(str, LRS)))
    tool("run", "f.pt", "--data", "d.npz", "--epochs", "20", "--batch-size", "4", "--shuffle", "none", "--quiet", "-o", "t.pt", cwd=members)
    tool("split", "t.pt", "-o", "out", cwd=members)
    data = np.load(members / "d.npz")
    batch = [(torch.from_numpy(data["x"]), torch.from_numpy(data["y"]))] * 20
    for k in range(3):
        net, before = make(k), state(make(k))
        train_eagerly(net, batch, nn.functional.mse_loss, lambda p, k=k: torch.optim.SGD(p, lr=LRS[k]))
        got = state(torch.jit.load(members / "out" / f"m{k}.pt"))
        assert_close(got, state(net), 1e-5)
        rests = "no" if k else "yes"
        assert torch.equal(got[f"{rests}.weight"], before[f"{rests}.weight"])
