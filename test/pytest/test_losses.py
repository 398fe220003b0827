"""Every loss through the tools against PyTorch's function: K=3, another value of each argument for every member, plain SGD."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import assert_close, export, nudged, state, tool

K, N, C = 3, 9, 3
LRS = [0.05, 0.1, 0.2]


class One(nn.Module):
    def __init__(self, squash=None):
        super().__init__()
        self.first, self.last, self.squash = nn.Linear(4, 3), nn.Linear(3, C), squash

    def forward(self, x):
        y = self.last(torch.tanh(self.first(x)))
        return self.squash(y) if self.squash else y


class Several(nn.Module):
    def __init__(self, count, last=None):
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.heads = nn.ModuleList(nn.Linear(3, C) for _ in range(count))
        self.last = last

    def forward(self, x):
        x = torch.tanh(self.first(x))
        outputs = [head(x) for head in self.heads]
        if self.last:
            outputs[-1] = self.last(outputs[-1])
        return tuple(outputs)


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, C, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def rows():
    return torch.randn(N, 4, generator=torch.Generator().manual_seed(1))


def labels(*sizes):
    return torch.randint(0, C, sizes or (N,), generator=torch.Generator().manual_seed(2))


def numbers(*sizes):
    return torch.randn(*(sizes or (N, C)), generator=torch.Generator().manual_seed(3))


def shares():
    return numbers().sigmoid()


def signs(*sizes):
    return (numbers(*(sizes or (N, C))) > 0).float() * 2 - 1


WEIGHT = torch.tensor([0.5, 2.0, 1.0])
WEIGHTS = torch.tensor([[0.5, 2.0, 1.0], [1.0, 0.1, 3.0], [0.2, 0.3, 0.4]])
IGNORED = labels().clone()
IGNORED[2:5] = -100
OWN = [labels().clone() for _ in range(K)]
POISSON = torch.poisson(shares() * 3, generator=torch.Generator().manual_seed(4))

# loss, --loss-args, net, x, y, reference(k, outputs, y)
CASES = {
    "cross_entropy": ("cross_entropy", [], One, rows(), labels(), lambda k, o, y: F.cross_entropy(o, y)),
    "cross_entropy smoothing": ("cross_entropy", ["label_smoothing=0.1,0.3,0"], One, rows(), labels(),
                                lambda k, o, y: F.cross_entropy(o, y, label_smoothing=[0.1, 0.3, 0][k])),
    "cross_entropy weight": ("cross_entropy", ["weight=w.npy"], One, rows(), IGNORED, lambda k, o, y: F.cross_entropy(o, y, WEIGHT)),
    "cross_entropy weights": ("cross_entropy", ["weight=ws.npy"], One, rows(), IGNORED, lambda k, o, y: F.cross_entropy(o, y, WEIGHTS[k])),
    "cross_entropy all": ("cross_entropy", ["weight=ws.npy", "label_smoothing=0.1,0.3,0", "ignore_index=0,1,2"], One, rows(), labels(),
                          lambda k, o, y: F.cross_entropy(o, y, WEIGHTS[k], ignore_index=k, label_smoothing=[0.1, 0.3, 0][k])),
    "cross_entropy sum": ("cross_entropy", ["reduction=sum"], One, rows(), labels(), lambda k, o, y: F.cross_entropy(o, y, reduction="sum")),
    "cross_entropy soft": ("cross_entropy", ["weight=ws.npy"], One, rows(), shares(), lambda k, o, y: F.cross_entropy(o, y, WEIGHTS[k])),
    "cross_entropy dense": ("cross_entropy", ["weight=ws.npy", "ignore_index=0,1,2"], Dense, torch.randn(N, 2, 3, 3), labels(N, 3, 3),
                            lambda k, o, y: F.cross_entropy(o, y, WEIGHTS[k], ignore_index=k)),
    "nll": ("nll", ["weight=ws.npy", "ignore_index=0,1,2"], lambda: One(nn.LogSoftmax(1)), rows(), labels(),
            lambda k, o, y: F.nll_loss(o, y, WEIGHTS[k], ignore_index=k)),
    "mse": ("mse", [], One, rows(), numbers(), lambda k, o, y: F.mse_loss(o, y)),
    "mse sum": ("mse", ["reduction=sum"], One, rows(), numbers() / 10, lambda k, o, y: F.mse_loss(o, y, reduction="sum")),
    "l1": ("l1", [], One, rows(), numbers(), lambda k, o, y: F.l1_loss(o, y)),
    "smooth_l1": ("smooth_l1", ["beta=1,0.5,0.1"], One, rows(), numbers(), lambda k, o, y: F.smooth_l1_loss(o, y, beta=[1, 0.5, 0.1][k])),
    "huber": ("huber", ["delta=1,0.5,0.1"], One, rows(), numbers(), lambda k, o, y: F.huber_loss(o, y, delta=[1, 0.5, 0.1][k])),
    "bce": ("bce", ["weight=ws.npy"], lambda: One(nn.Sigmoid()), rows(), shares(), lambda k, o, y: F.binary_cross_entropy(o, y, WEIGHTS[k])),
    "bce_with_logits": ("bce_with_logits", ["pos_weight=ws.npy", "weight=w.npy"], One, rows(), shares(),
                        lambda k, o, y: F.binary_cross_entropy_with_logits(o, y, WEIGHT, pos_weight=WEIGHTS[k])),
    "kl_div": ("kl_div", ["reduction=batchmean"], lambda: One(nn.LogSoftmax(1)), rows(), shares(),
               lambda k, o, y: F.kl_div(o, y, reduction="batchmean")),
    "poisson_nll": ("poisson_nll", ["full=true", "log_input=false", "eps=1e-4"], lambda: One(nn.Softplus()), rows(), POISSON,
                    lambda k, o, y: F.poisson_nll_loss(o, y, log_input=False, full=True, eps=1e-4)),
    "gaussian_nll": ("gaussian_nll", ["full=true", "eps=1e-6,0.3,0.9"], lambda: Several(2, nn.Softplus()), rows(), numbers(),
                     lambda k, o, y: F.gaussian_nll_loss(o[0], y, o[1], full=True, eps=[1e-6, 0.3, 0.9][k])),
    "cosine_embedding": ("cosine_embedding", ["margin=0,0.5,-0.5"], lambda: Several(2), rows(), signs(N),
                         lambda k, o, y: F.cosine_embedding_loss(o[0], o[1], y, margin=[0, 0.5, -0.5][k])),
    "hinge_embedding": ("hinge_embedding", ["margin=1,0.5,2"], One, rows(), signs(),
                        lambda k, o, y: F.hinge_embedding_loss(o, y, margin=[1, 0.5, 2][k])),
    "soft_margin": ("soft_margin", [], One, rows(), signs(), lambda k, o, y: F.soft_margin_loss(o, y)),
    "multi_margin": ("multi_margin", ["margin=1,0.5,2", "weight=ws.npy"], One, rows(), labels(),
                     lambda k, o, y: F.multi_margin_loss(o, y, margin=[1, 0.5, 2][k], weight=WEIGHTS[k])),
    "multi_margin p=2": ("multi_margin", ["p=2", "margin=1,0.5,2"], One, rows(), labels(),
                         lambda k, o, y: F.multi_margin_loss(o, y, p=2, margin=[1, 0.5, 2][k])),
    "multilabel_soft_margin": ("multilabel_soft_margin", ["weight=ws.npy"], One, rows(), (shares() > 0.5).float(),
                               lambda k, o, y: F.multilabel_soft_margin_loss(o, y, WEIGHTS[k])),
    "triplet_margin": ("triplet_margin", ["margin=1,0.5,2"], lambda: Several(3), rows(), None,
                       lambda k, o, y: F.triplet_margin_loss(*o, margin=[1, 0.5, 2][k])),
    "triplet_margin swap": ("triplet_margin", ["swap=true", "p=1", "reduction=sum"], lambda: Several(3), rows(), None,
                            lambda k, o, y: F.triplet_margin_loss(*o, p=1, swap=True, reduction="sum")),
    "sum": ("cross_entropy@0 + 0.4*cross_entropy@1", ["label_smoothing=0.1,0.3,0"], lambda: Several(2), rows(), labels(),
            lambda k, o, y: F.cross_entropy(o[0], y, label_smoothing=[0.1, 0.3, 0][k]) + 0.4 * F.cross_entropy(
                o[1], y, label_smoothing=[0.1, 0.3, 0][k])),
}


def gradient_steps(k, net, x, y, reference, extra=None, noise=False):
    if noise:
        nudged(net)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k])
    for _ in range(10):
        optimizer.zero_grad()
        loss = reference(k, net(x), y)
        if extra:
            loss = loss + extra(net)
        loss.backward()
        optimizer.step()
    return state(net)


def made(build, k):
    torch.manual_seed(k)
    return build()


def train(folder, loss, arguments, build, x, y, through):
    np.save(folder / "w.npy", WEIGHT.numpy())
    np.save(folder / "ws.npy", WEIGHTS.numpy())
    arrays = {"x": x.numpy()} if y is None else {"x": x.numpy(), "y": y.numpy()}
    np.savez(folder / "d.npz", **arrays)
    for k in range(K):
        export(made(build, k), folder / f"m{k}.pt", x)
    options = ["--loss", loss, "--optimizer", "sgd", "--lr", ",".join(map(str, LRS))]
    for argument in arguments:
        options += ["--loss-arg", argument]
    fuse, run = (options, []) if through == "fuse" else ([], options)
    tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", "fused.pt", *fuse, cwd=folder)
    tool("run", "fused.pt", "--data", "d.npz", "--batch-size", N, "--epochs", "10", "--shuffle", "none", "--quiet", "-o", "t.pt", *run,
         cwd=folder)
    tool("split", "t.pt", "-o", "parts", cwd=folder)
    return [state(torch.jit.load(folder / "parts" / f"m{k}.pt")) for k in range(K)]


@pytest.mark.parametrize("name", CASES)
def test_losses_are_those_of_pytorch(tmp_path, name):
    loss, arguments, build, x, y, reference = CASES[name]
    got = train(tmp_path, loss, arguments, build, x, y, "fuse" if len(name) % 2 else "run")
    for k in range(K):
        want, noisy = (gradient_steps(k, made(build, k), x, y, reference, noise=noise) for noise in (False, True))
        assert_close(got[k], want, 1e-5, noisy, what=f"member {k}")


def test_penalties_of_the_weights(tmp_path):
    got = train(tmp_path, "mse + 0.01*l1_penalty + 1e-2*l2_penalty", [], One, rows(), numbers(), "fuse")

    def penalty(net):
        return sum(0.01 * p.abs().sum() + 1e-2 * p.square().sum() for p in net.parameters())

    for k in range(K):
        want = gradient_steps(k, made(One, k), rows(), numbers(), lambda k, o, y: F.mse_loss(o, y), penalty)
        assert_close(got[k], want, 1e-5, what=f"member {k}")


@pytest.mark.parametrize("loss,code,message", [
    ("gaussian_nll", 1, "gaussian_nll takes mean and variance, but the model has 1 output"),
    ("mse@2", 1, "the loss takes output 2, but the model has 1"),
    ("mse + nothing", 2, "there is no loss 'nothing'"),
    ("x*mse", 2, "'x*mse' is not of the form FACTOR*NAME@OUTPUT"),
])
def test_losses_that_do_not_fit_are_refused(tmp_path, loss, code, message):
    export(One(), tmp_path / "m.pt", rows())
    done = tool("fuse", "m.pt", "-o", "f.pt", "--loss", loss, ok=False, cwd=tmp_path)
    assert done.returncode == code and message in done.stderr


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return self.first(x), self.last(x)


@pytest.mark.parametrize("loss", ["cosine_embedding", "hinge_embedding"])
def test_losses_of_signs_are_verified_with_signs(tmp_path, loss):
    """Drawn targets are 1 and -1, one per row where the loss takes one: the gradients that are compared are none of zeros."""
    for k in range(3):
        torch.manual_seed(k)
        export(TwoOutputs() if loss == "cosine_embedding" else nn.Linear(3, 3), tmp_path / f"m{k}.pt", torch.zeros(4, 3))
    done = tool("fuse", "m0.pt", "m1.pt", "m2.pt", "-o", "f.pt", "--loss", loss, "--optimizer", "sgd", cwd=tmp_path)
    assert "verified: outputs, gradients, buffers and updates agree after 1 step" in done.stdout + done.stderr
