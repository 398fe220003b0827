"""--sample-weight: sum(w * l) / sum(w) of each member's batch against eager PyTorch (K=3), and what has no such loss."""
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from chorus_testing import TwoLayers, assert_close, export, nudged, state, tool

K, N, C, BATCH = 3, 9, 3, 3
LRS = [0.05, 0.1, 0.2]


class Three(TwoLayers):
    def forward(self, x):
        h = torch.tanh(self.first(x))
        return self.last(h), self.last(h + x[:, :3]), self.last(h - x[:, :3])


def draws(*sizes, seed=3):
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


LABELS = torch.randint(0, C, (N,), generator=torch.Generator().manual_seed(2))
# loss, arguments, net, y, losses of rows
CASES = {
    "mse": ("mse", [], TwoLayers, draws(N, C), lambda k, o, y: F.mse_loss(o, y, reduction="none").mean(1)),
    "mse sum": ("mse", ["reduction=sum"], TwoLayers, draws(N, C) / 9, lambda k, o, y: F.mse_loss(o, y, reduction="none").sum(1)),
    "cross_entropy": ("cross_entropy", [], TwoLayers, LABELS, lambda k, o, y: F.cross_entropy(o, y, reduction="none")),
    "cross_entropy smoothing": ("cross_entropy", ["label_smoothing=0.1,0.3,0"], TwoLayers, LABELS,
                                lambda k, o, y: F.cross_entropy(o, y, reduction="none", label_smoothing=[0.1, 0.3, 0][k])),
    "huber": ("huber", ["delta=1,0.5,0.1"], TwoLayers, draws(N, C),
              lambda k, o, y: F.huber_loss(o, y, reduction="none", delta=[1, 0.5, 0.1][k]).mean(1)),
    "bce weights": ("bce_with_logits", ["pos_weight=ws.npy"], TwoLayers, draws(N, C).sigmoid(),
                    lambda k, o, y: F.binary_cross_entropy_with_logits(o, y, pos_weight=WEIGHTS[k], reduction="none").mean(1)),
    "triplet": ("triplet_margin", ["margin=1,0.5,2"], Three, None,
                lambda k, o, y: F.triplet_margin_loss(*o, margin=[1, 0.5, 2][k], reduction="none")),
    "sum of losses": ("cross_entropy@0 + 0.5*cross_entropy@1", ["label_smoothing=0.1,0.3,0"], Three, LABELS, lambda k, o, y: F.cross_entropy(
        o[0], y, reduction="none", label_smoothing=[0.1, 0.3, 0][k]) + 0.5 * F.cross_entropy(
        o[1], y, reduction="none", label_smoothing=[0.1, 0.3, 0][k])),
}
WEIGHTS = torch.tensor([[0.5, 2.0, 1.0], [1.0, 0.1, 3.0], [0.2, 0.3, 0.4]])
ROWS = torch.tensor(np.random.default_rng(4).uniform(0, 3, (K, N)).round(2))
ROWS[1, 4] = 0
ROWS[2, 3:6] = 0  # a batch without weight


def made(build, k):
    torch.manual_seed(k)
    return build()


def alone(k, build, x, y, w, losses, total, noise=False):
    net = nudged(made(build, k)) if noise else made(build, k)
    optimizer = torch.optim.SGD(net.parameters(), LRS[k])
    for _ in range(3):
        for at in range(0, N, BATCH):
            rows = slice(at, at + BATCH)
            optimizer.zero_grad()
            weight = w[rows].float()
            loss = (losses(k, net(x[rows]), None if y is None else y[rows]) * weight).sum()
            if not total and float(weight.sum()) > 0:
                loss = loss / weight.sum()
            loss.backward()
            optimizer.step()
    return state(net)


def run(folder, case, weights, inputs, *options, ok=True):
    loss, arguments, build, y, _ = case
    np.save(folder / "ws.npy", WEIGHTS.numpy())
    np.save(folder / "w.npy", weights.numpy())
    x = draws(N, 4, seed=1)
    own = (lambda t: torch.stack([t.roll(k, 0) for k in range(K)])) if inputs == "stacked" else (lambda t: t)
    arrays = {"x": own(x).numpy(), "w": weights.numpy(), **({} if y is None else {"y": own(y).numpy()})}
    np.savez(folder / "d.npz", **arrays)
    for k in range(K):
        export(made(build, k), folder / f"m{k}.pt", x)
    flags = [f for a in arguments for f in ("--loss-arg", a)]
    tool("fuse", *[f"m{k}.pt" for k in range(K)], "-o", "fused.pt", "--loss", loss, *flags, "--optimizer", "sgd", "--lr",
         ",".join(map(str, LRS)), cwd=folder)
    return tool("run", "fused.pt", "--data", "d.npz", "--inputs", inputs, "--batch-size", BATCH, "--epochs", "3", "--shuffle", "none", "--quiet",
                "-o", "t.pt", *options, ok=ok, cwd=folder)


def check(folder, case, name, weights, inputs):
    run(folder, case, weights, inputs, "--sample-weight", "w" if inputs == "shared" else "w.npy")
    tool("split", "t.pt", "-o", "parts", cwd=folder)
    _, _, build, y, losses = case
    x = draws(N, 4, seed=1)
    for k in range(K):
        mine = (x.roll(k, 0), y if y is None else y.roll(k, 0)) if inputs == "stacked" else (x, y)
        w = weights[k] if weights.dim() == 2 else weights
        want, noisy = (alone(k, build, *mine, w, losses, "reduction=sum" in case[1], noise) for noise in (False, True))
        assert_close(state(torch.jit.load(folder / "parts" / f"m{k}.pt")), want, 1e-5, noisy, what=f"member {k}")


@pytest.mark.parametrize("inputs", ["shared", "stacked"])
@pytest.mark.parametrize("name", CASES)
def test_weighted_means_are_each_members_own(tmp_path, name, inputs):
    check(tmp_path, CASES[name], name, ROWS if len(name) % 2 else ROWS[0], inputs)


def test_members_weigh_their_own_rows(tmp_path):
    check(tmp_path, CASES["cross_entropy"], "", ROWS, "shared")


def test_members_one_after_another_are_weighed_alike(tmp_path):
    run(tmp_path, CASES["mse"], ROWS, "stacked", "--sample-weight", "w")
    fused = state(torch.jit.load(tmp_path / "t.pt"))
    run(tmp_path, CASES["mse"], ROWS, "stacked", "--sample-weight", "w", "--unfused")
    apart = state(torch.jit.load(tmp_path / "t.pt"))
    names = [n for n in fused if n.startswith(("first", "last"))]
    assert_close({n: apart[n] for n in names}, {n: fused[n] for n in names}, 1e-6)


def test_the_reported_loss_is_the_weighted_mean_of_all_rows(tmp_path):
    """With lr 0 every batch is of the same network: the epoch's loss is sum(w * l) / sum(w) over all rows."""
    name, arguments, build, y, losses = CASES["mse"]
    done = run(tmp_path, CASES["mse"], ROWS, "shared", "--sample-weight", "w", "--lr", "0", "--json")
    for k, row in enumerate(json.loads(done.stdout)["members"]):
        with torch.no_grad():
            each = losses(k, made(build, k)(draws(N, 4, seed=1)), y).double()
        assert row["train_loss"] == pytest.approx(float((each * ROWS[k]).sum() / ROWS[k].sum()), rel=1e-5)


def test_a_fault_turns_this_red(tmp_path, monkeypatch):
    monkeypatch.setenv("CHORUS_FAULT", "weights_of_member_zero")
    with pytest.raises(AssertionError):
        check(tmp_path, CASES["mse"], "", ROWS, "shared")


def test_equal_weights_change_nothing(tmp_path):
    run(tmp_path, CASES["mse"], torch.full((N,), 2.5), "shared")
    plain = state(torch.jit.load(tmp_path / "t.pt"))
    run(tmp_path, CASES["mse"], torch.full((N,), 2.5), "shared", "--sample-weight", "w")
    got = state(torch.jit.load(tmp_path / "t.pt"))
    names = [n for n in plain if n.startswith(("first", "last"))]
    assert_close({n: got[n] for n in names}, {n: plain[n] for n in names}, 1e-5)


def test_weights_follow_their_rows(tmp_path):
    """Whatever order the rows come in, one row that counts alone moves the members as if it were the data."""
    weights = torch.zeros(N)
    weights[5] = 2
    run(tmp_path, CASES["mse"], weights, "shared")
    options = ["--optimizer", "sgd", "--lr", "0.1", "--loss", "mse", "--quiet", "--epochs", "2", "-o", "t.pt"]
    tool("run", "m0.pt", "--data", "d.npz", "--sample-weight", "w", "--shuffle", "member", "--batch-size", N, *options, cwd=tmp_path)
    got = state(torch.jit.load(tmp_path / "t.pt"))
    arrays = np.load(tmp_path / "d.npz")
    np.savez(tmp_path / "one.npz", x=arrays["x"][5:6], y=arrays["y"][5:6])
    tool("run", "m0.pt", "--data", "one.npz", "--batch-size", 1, *options, cwd=tmp_path)
    assert_close(got, state(torch.jit.load(tmp_path / "t.pt")), 1e-5)


class Scalar(nn.Module):
    def forward(self, output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return (output - target).pow(2).mean()


@pytest.mark.parametrize("case,weights,message", [
    (("mse + l2_penalty", [], TwoLayers, draws(N, C), None), ROWS, "is not made of losses of single rows"),
    (("cross_entropy", ["weight=ws.npy"], TwoLayers, LABELS, None), ROWS, "does not go with class weights"),
    (("cross_entropy", ["ignore_index=1"], TwoLayers, LABELS, None), ROWS, "which the loss ignores (1)"),
    (("mse", [], TwoLayers, draws(N, C), None), ROWS[:2], "have sizes [2, 9], which are neither [N] nor [K,N] with N = 9, K = 3"),
    (("mse", [], TwoLayers, draws(N, C), None), ROWS - 1, "but a weight is a number of 0 or more"),
])
def test_what_cannot_be_weighed_is_refused(tmp_path, case, weights, message):
    done = run(tmp_path, case, weights, "shared", "--sample-weight", "w", ok=False)
    assert done.returncode == 1 and message in done.stderr, done.stderr


def test_a_scripted_loss_and_a_missing_array_are_refused(tmp_path):
    run(tmp_path, CASES["mse"], ROWS, "shared")
    torch.jit.script(Scalar()).save(str(tmp_path / "loss.pt"))
    options = ["m0.pt", "--data", "d.npz", "--optimizer", "sgd", "--lr", "0.1", "-o", "o.pt", "--sample-weight"]
    done = tool("run", *options, "w", "--loss", "loss.pt", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "'scripted' is not made of losses of single rows" in done.stderr
    done = tool("run", *options, "v", "--loss", "mse", ok=False, cwd=tmp_path)
    assert done.returncode == 1 and "'v' is neither an array of the data nor a file" in done.stderr
