"""Sums of losses: terms of several outputs, one of them a file, one target for all; against eager PyTorch (K=3)."""
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, nudged, state, tool

K, N = 3, 3
LRS = [0.05, 0.1, 0.2]


class Heads(nn.Module):
    """Outputs [N,3], [N,3] and [N,2]."""

    def __init__(self):
        super().__init__()
        self.body, self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.a(h), self.b(h), self.c(h)


class Tilted(nn.Module):
    """Of one output; a buffer of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("tilt", torch.tensor([0.5, 2.0, 1.0]))

    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (self.tilt * (output - target)).abs().mean() + 0.1 * output.std()


class Apart(nn.Module):
    """Of two outputs, which it keeps apart."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (a * b - target).pow(2).mean() / (1 + a.abs().mean())


def make(k):
    torch.manual_seed(k)
    return Heads()


def penalty(net):
    return sum(p.pow(2).sum() for p in net.parameters())


X = torch.randn(N, 3, generator=torch.Generator().manual_seed(3))
Y = torch.rand(N, 3, generator=torch.Generator().manual_seed(4))
PAIR = torch.rand(N, 2, generator=torch.Generator().manual_seed(5))
LABELS = torch.tensor([2, 0, 1])
SUMS = {  # text, value, target
    "a file and a name": ("tilted.pt@0 + 0.4*mse@1", lambda net, o, y: Tilted()(o[0], y) + 0.4 * F.mse_loss(o[1], y), Y),
    "a file of two outputs": ("0.5*mse@0 + 2*apart.pt@0", lambda net, o, y: 0.5 * F.mse_loss(o[0], y) + 2 * Apart()(o[0], o[1], y), Y),
    "a file of the second output": ("0.3*./tilted.pt@1 + mse@0", lambda net, o, y: 0.3 * Tilted()(o[1], y) + F.mse_loss(o[0], y), Y),
    "a file and a penalty": ("tilted.pt@1 + 1e-2*l2_penalty", lambda net, o, y: Tilted()(o[1], y) + 0.01 * penalty(net), Y),
    "probabilities": ("cross_entropy@0 + mse@1", lambda net, o, y: F.cross_entropy(o[0], y) + F.mse_loss(o[1], y), Y),
    "an output of other sizes": ("mse@2", lambda net, o, y: F.mse_loss(o[2], y), PAIR),
    "class numbers of two heads": ("cross_entropy@0 + 0.5*multi_margin@1",
                                   lambda net, o, y: F.cross_entropy(o[0], y) + 0.5 * F.multi_margin_loss(o[1], y), LABELS),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sums")
    for k in range(K):
        export(make(k), path / f"m{k}.pt", X)
    for name, loss in (("tilted", Tilted), ("apart", Apart)):
        torch.jit.script(loss()).save(str(path / f"{name}.pt"))
    for name, y in (("y", Y), ("pair", PAIR), ("labels", LABELS)):
        np.savez(path / f"{name}.npz", x=X.numpy(), y=y.numpy())
        np.savez(path / f"{name}_each.npz", x=stacked(X).numpy(), y=stacked(y).numpy())
    return path


def stacked(t):
    return torch.stack([t.roll(k, 0) for k in range(K)])


def trained(k, value, y, steps, noise=False):
    net = make(k)
    if noise:
        nudged(net)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k])
    x, y = X.roll(k, 0), y.roll(k, 0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = value(net, net(x), y)
        loss.backward()
        optimizer.step()
    return net


def name_of(y):
    return "y" if y is Y else "pair" if y is PAIR else "labels"


@pytest.mark.parametrize("name", SUMS)
def test_sums_train_like_pytorch(folder, name):
    text, value, y = SUMS[name]
    options = ["--loss", text, "--optimizer", "sgd", "--lr", ",".join(map(str, LRS))]
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", *options, cwd=folder)
    tool("run", "f.pt", "--data", f"{name_of(y)}_each.npz", "--inputs", "stacked", "--batch-size", N, "--epochs", "20", "--shuffle", "none",
         "--quiet", "-o", "t.pt", *(options[:2] if len(name) % 2 else []), cwd=folder)
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    fused = torch.jit.load(folder / "f.pt")
    for _ in range(20):
        fused.train_step(stacked(X), stacked(y))
    for k in range(K):
        want, noisy = (state(trained(k, value, y, 20, noise)) for noise in (False, True))
        assert_close(state(torch.jit.load(folder / "parts" / f"m{k}.pt")), want, 1e-5, noisy, what=f"member {k}")
        assert_close({n: fused.state_dict()[n][k] for n in want}, want, 1e-5, noisy, what=f"member {k} by its file")


@pytest.mark.parametrize("name", ["an output of other sizes", "class numbers of two heads"])
def test_metrics_look_at_the_output_that_the_target_belongs_to(folder, name):
    text, value, y = SUMS[name]
    if y is LABELS:
        text = "0.5*multi_margin@1"
    metric = "accuracy" if y is LABELS else "mse"
    done = tool("run", "m1.pt", "--data", f"{name_of(y)}.npz", "--loss", text, "--optimizer", "sgd", "--lr", "0", "-o", "n.pt", "--val",
                f"{name_of(y)}.npz", "--metric", metric, "--epochs", "1", "--json", cwd=folder)
    out = make(1)(X)
    want = float((out[1].argmax(1) == y).float().mean()) if y is LABELS else float(F.mse_loss(out[2], y))
    row = json.loads(done.stdout)["members"][0]
    assert row[f"val_{metric}"] == pytest.approx(want, rel=1e-5)
    assert row[f"train_{metric}"] == pytest.approx(want, rel=1e-5)


HELP = "\n  help: a scripted loss takes all outputs and can make several targets of one: forward(output0, output1, target)\n"
TWO = "error: all terms of the loss see the same target, but "


@pytest.mark.parametrize("text,message", [
    ("nll@0 + 0.5*mse@1", TWO + "'nll@0' takes class numbers i64[N] and '0.5*mse@1' f32[N,3]" + HELP),
    ("mse@0 + mse@2", TWO + "'mse@0' takes f32[N,3] and 'mse@2' f32[N,2]" + HELP),
    ("nll@0 + tilted.pt@1", TWO + "'nll@0' takes class numbers i64[N] and 'scripted@1' f32[N,3]" + HELP),
    ("tilted.pt@0 + apart.pt@0", "unsupported: two scripted losses in a sum of losses, 'tilted.pt' and 'apart.pt'\n"
                                 "  help: forward of one can return the sum of both\n"),
    ("none.pt@0 + mse@1", "none.pt: error: there is no such file\n"),
])
@pytest.mark.parametrize("command", [["fuse", "m0.pt", "m1.pt"], ["fuse", "m0.pt", "m1.pt", "--no-verify"],
                                     ["run", "m0.pt", "--data", "y.npz", "--lr", "1"]])
def test_terms_that_have_no_target_in_common_are_refused(folder, command, text, message):
    done = tool(*command, "-o", "none.pt", "--loss", text, "--optimizer", "sgd", ok=False, cwd=folder)
    assert done.returncode == (3 if message.startswith("unsupported") else 1) and done.stderr == message
    assert not (folder / "none.pt").exists()


@pytest.mark.parametrize("data,loss,message", [
    ("pair", "mse", "pair.npz: error: array 'y' has sizes [3, 2], but the target of 'mse' has the sizes [N,3]"),
    ("pair", "cross_entropy", "pair.npz: error: array 'y' has sizes [3, 2], but the target of 'cross_entropy' has the sizes [N,3]"),
    ("pair_each", "mse@0 + mse@1",
     "pair_each.npz: error: array 'y' has sizes [3, 2] per member, but the target of 'mse@0 + mse@1' has the sizes [N,3]"),
    ("labels", "cross_entropy@0 + mse@1",
     "labels.npz: error: array 'y' has sizes [3], but the target of 'cross_entropy@0 + mse@1' has rank 2 here"),
])
def test_targets_of_other_sizes_are_refused_before_training(folder, data, loss, message):
    if data == "pair_each":
        tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "plain.pt", "--no-verify", cwd=folder)
    done = tool("run", "plain.pt" if data == "pair_each" else "m0.pt", "--data", f"{data}.npz", "--loss", loss, "--optimizer", "sgd", "-o",
                "none.pt", *(["--inputs", "stacked"] if data == "pair_each" else []), ok=False, cwd=folder)
    assert done.returncode == 1
    assert done.stderr == message + "\n  help: a target never broadcasts: reshape it when you write the file\n"


def test_a_weight_for_the_loss_of_a_file_is_not_forgotten(folder):
    weight = torch.tensor([0.2, 3.0, 1.0])
    np.save(folder / "w.npy", weight.numpy())
    tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", "cross_entropy@0", "--optimizer", "sgd", "--lr", "0.1", cwd=folder)
    done = tool("run", "f.pt", "--data", "labels.npz", "--loss", "cross_entropy@0", "--loss-arg", "weight=w.npy", "--batch-size", N, "--epochs",
                "10", "--shuffle", "none", "--quiet", "-o", "t.pt", cwd=folder)
    assert "--loss-arg replaces the arguments" in done.stderr
    tool("split", "t.pt", "-o", "parts", "--force", cwd=folder)
    net = make(1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(10):
        optimizer.zero_grad()
        F.cross_entropy(net(X)[0], LABELS, weight).backward()
        optimizer.step()
    assert_close(state(torch.jit.load(folder / "parts" / "m1.pt")), state(net), 1e-5)


def test_outputs_that_do_not_fit_each_other_are_the_networks(folder):
    done = tool("run", "m0.pt", "--data", "y.npz", "--loss", "gaussian_nll@1", "--optimizer", "sgd", "-o", "none.pt", ok=False, cwd=folder)
    assert (done.returncode, done.stderr) == (1, "error: gaussian_nll: the variance is [1, 3, 2] and the mean [1, 3, 3]\n"
                                                 "  note: an assertion in the code of the network or of the loss fails\n")
